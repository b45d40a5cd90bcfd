import type { Snippet } from "./extractSnippets.ts"
import type { Ran } from "./runNode.ts"

/** A snippet is small: one that takes longer is waiting for something that does not come. */
export const SLOWEST_SNIPPET_MS = 60_000

/** Returns the problem with the outcome of a snippet, or undefined. */
export const problemWith = ({ output }: Snippet, { exitCode, stdout, stderr }: Ran): string | undefined => {
  if (exitCode !== 0) return `exit code ${exitCode}: ${stderr}`
  const printed = stdout.trimEnd()
  const promised = output?.trimEnd()
  return promised === undefined || promised === printed ? undefined : `promised\n${promised}\nand printed\n${printed}`
}
