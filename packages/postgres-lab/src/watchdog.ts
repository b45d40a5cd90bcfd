import { spawn } from "node:child_process"
import { once } from "node:events"
import type { RunAs } from "./binaries.ts"

export interface Watchdog {
  /** Stops the server if it still runs, removes the directory, and resolves when both are gone. */
  readonly release: () => Promise<void>
}

// The data may be elsewhere, behind a link. `read` ends when nobody holds the other end of the pipe any more: released, or dead in whatever way.
const script = `read -r _; "$1/pg_ctl" stop -D "$2/data" -m immediate -t 30; cd /; rm -rf "$(readlink -f "$2/data")" "$2"`

/**
 * A process that outlives this one only to clean up after it, SIGKILL included: no exit hook runs then. It has a
 * session of its own (an interrupt from the keyboard does not reach it) and runs as `user`, so it can hurt nobody else.
 */
export const watchdog = (bin: string, directory: string, user: RunAs): Watchdog => {
  const child = spawn("/bin/sh", ["-c", script, "kiln-postgres-watchdog", bin, directory], {
    ...user,
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  })
  child.unref()
  const gone = once(child, "exit")
  return {
    release: async () => {
      child.ref()
      child.stdin.end()
      await gone
    },
  }
}
