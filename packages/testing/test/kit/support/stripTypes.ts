import { stripTypeScriptTypes } from "node:module"

/** What makes JavaScript of TypeScript for jest: the types become blanks, as Node itself does it. */
export const process = (source: string) => ({ code: stripTypeScriptTypes(source) })
