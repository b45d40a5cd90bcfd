import { spawnSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe } from "vitest"

// What a machine may lack. Each is tried out, not guessed: a container may have the program and forbid what it does.

/** `strace`: to start a process under it; `attach`: to join one that runs; `mounts`: to mount, as root; `prlimit`: to limit one that runs. */
export type Need = "strace" | "attach" | "mounts" | "prlimit"

const fails = (command: string, ...args: ReadonlyArray<string>): string | undefined => {
  const { error, status, stderr } = spawnSync(command, args, { encoding: "utf8", timeout: 5_000 })
  if (error !== undefined) return error.message
  return status === 0 ? undefined : `${command}: ${stderr.trim().split("\n")[0] || `exit ${String(status)}`}`
}

const noMounts = (): string | undefined => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-mount-"))
  try {
    const refused = fails("mount", "-t", "tmpfs", "-o", "size=1m", "kiln-needs", directory)
    return refused ?? fails("umount", directory)
  } finally {
    rmdirSync(directory)
  }
}

/** Tracing a process other than a child is often forbidden even if tracing is allowed. */
const tryToAttach = "sleep 5 & p=$!; strace -q -o /dev/null -p $p & s=$!; sleep 0.3; kill $p; wait $s"

const lacks: Readonly<Record<Need, () => string | undefined>> = {
  strace: () => fails("strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "--", "true"),
  attach: () => missing("strace") ?? fails("sh", "-c", tryToAttach),
  mounts: noMounts,
  prlimit: () => fails("prlimit", "--nofile"),
}

const found = new Map<Need, string | undefined>()

/** Why this machine cannot do it; `undefined` when it can. */
const missing = (need: Need): string | undefined => {
  if (!found.has(need)) found.set(need, lacks[need]())
  return found.get(need)
}

/** A `describe` that says in its name why it is skipped. */
export const describeWith = (need: Need, name: string, tests: () => void): void => {
  const reason = missing(need)
  describe.skipIf(reason !== undefined)(
    reason === undefined ? name : `${name} [skipped, no ${need} here: ${reason}]`,
    tests,
  )
}
