/** Shipped files over 400 lines, each with the reason why it is one file. An entry that is no longer needed is an error. */
export const longFiles: Readonly<Record<string, string>> = {}
