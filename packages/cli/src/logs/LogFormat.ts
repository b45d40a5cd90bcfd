/** `text`: for people, and for tools that read `key=value`. `json`: one JSON object a line. */
export const logFormats = ["text", "json"] as const
export type LogFormat = (typeof logFormats)[number]
