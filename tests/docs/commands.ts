import type { TidyFile } from "../tidy/TidyFile.ts"

/** Commands of pnpm that are not scripts of this repository. */
const ofPnpm = new Set(["add", "changeset", "dlx", "exec", "install", "pack", "publish", "remove", "run", "test"])

/** Returns the missing scripts that a Markdown file tells its reader to run, each as `path:line: name`. */
export const unknownScripts = (
  { path, text }: TidyFile,
  scripts: Readonly<Record<string, string>>,
): ReadonlyArray<string> =>
  text.split("\n").flatMap((line, index) =>
    [...line.matchAll(/\bpnpm(?:@\d+)? (?:-\w+ )*(?:run )?([a-z][\w:-]*)/g)]
      .map(([, name = ""]) => name)
      // Only commands in code count, not sentences about pnpm.
      .filter((name) => isCode(line, name) && !ofPnpm.has(name) && !Object.hasOwn(scripts, name))
      .map((name) => `${path}:${index + 1}: there is no script \`${name}\``),
  )

const isCode = (line: string, name: string): boolean =>
  /^\s*(npx -y |sudo )?pnpm/.test(line) || new RegExp(`\`[^\`]*\\bpnpm(@\\d+)? [^\`]*${name}[^\`]*\``).test(line)
