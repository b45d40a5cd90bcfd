import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"

export interface TidyFile {
  /** From the root of the repository, with `/`. */
  readonly path: string
  readonly text: string
}

/** One thing to put right: `path:line: what`. */
export type Finding = string

/** Every file that is or could be committed (tracked, or new and not ignored); a binary one has no text. */
export const repositoryFiles = (root: string): ReadonlyArray<TidyFile> => {
  // A checkout may belong to someone else than the one who runs the tests, as in a container.
  const args = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
  const listed = execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0")
  return [...new Set(listed)]
    .filter((path) => path !== "" && existsSync(join(root, path)) && statSync(join(root, path)).isFile())
    .map((path) => ({ path, bytes: readFileSync(join(root, path)) }))
    .map(({ path, bytes }) => ({ path, text: bytes.includes(0) ? "" : bytes.toString("utf8") }))
}

/** The lines on which `pattern` occurs, one finding for each. */
export const findLines = ({ path, text }: TidyFile, pattern: RegExp, what: string): Array<Finding> =>
  text.split("\n").flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${what}`] : []))

/** The checks themselves have to name what they forbid. */
export const isAboutTidiness = ({ path }: TidyFile): boolean =>
  /^tests\/(tidy\/|tidy\.test\.ts$|checks\.proof\.ts$)/.test(path)
