import { globSync } from "node:fs"
import { join } from "node:path"
import { difference } from "../difference.ts"

/** The pages of a directory that are not as they should be, or should not be there, each with what is wrong with it. */
export const stalePages = (pages: ReadonlyMap<string, string>, directory: string): ReadonlyArray<string> => [
  ...[...pages].flatMap(([file, text]) => {
    const reason = difference(text, join(directory, file))
    return reason === undefined ? [] : [`${file} ${reason}`]
  }),
  ...globSync("*.md", { cwd: directory })
    .filter((file) => !pages.has(file))
    .map((file) => `${file} is of no door`),
]
