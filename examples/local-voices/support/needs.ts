import { spawnSync } from "node:child_process"
import { describe } from "vitest"

const runs = (command: string, ...args: ReadonlyArray<string>) =>
  spawnSync(command, args, { input: "", encoding: "utf8", timeout: 20_000 })

/** Returns why a program cannot be used, or undefined. Runs each program, because its data package may be missing. */
const lacks = {
  "espeak-ng": () => {
    const { error, status, stderr } = runs("espeak-ng", "-v", "en-us+f5", "--stdin", "--stdout")
    return status === 0 ? undefined : (error?.message ?? stderr.trim())
  },
  "pocketsphinx with its English model": () => {
    const { error, status, stderr } = runs("pocketsphinx_continuous", "-infile", "/dev/null", "-logfn", "/dev/null")
    return status === 0 ? undefined : (error?.message ?? `exit code ${status}: ${stderr.trim()}`)
  },
  "sox that reads MP3": () => {
    const { error, stdout } = runs("sox", "--help")
    if (error !== undefined) return error.message
    return /FILE FORMATS:.* mp3\b/.test(stdout) ? undefined : "it was installed without MP3"
  },
} as const satisfies Readonly<Record<string, () => string | undefined>>

export type Need = keyof typeof lacks

/** A `describe` whose name says why it is skipped. */
export const describeWith = (needs: ReadonlyArray<Need>, name: string, tests: () => void): void => {
  const missing = needs.flatMap((need) => {
    const reason = lacks[need]()
    return reason === undefined ? [] : [`no ${need} here: ${reason}`]
  })
  const reason = missing.length === 0 ? "" : ` [skipped, ${missing.join("; ")}]`
  // pocketsphinx needs a core for a second or two, and longer on a busy machine.
  describe.skipIf(missing.length > 0)(name + reason, { timeout: 180_000 }, tests)
}
