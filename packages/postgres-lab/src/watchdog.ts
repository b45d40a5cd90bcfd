import { spawn } from "node:child_process"
import { once } from "node:events"
import type { RunAs } from "./binaries.ts"

export interface Watchdog {
  /** Stops the server if it is running, removes the directory, and resolves when both are gone. */
  readonly release: () => Promise<void>
}

// The data may be elsewhere, behind a link. `read` ends when the other end of the pipe is closed: on release, or when the process dies.
const script = `read -r _; "$1/pg_ctl" stop -D "$2/data" -m immediate -t 30; cd /; rm -rf "$(readlink -f "$2/data")" "$2"`

/**
 * Starts a process that outlives this one only to clean up after it, even after SIGKILL, when no exit hook runs. It has a
 * separate session, so that keyboard interrupts do not reach it, and runs as `user`, so that it cannot affect other users.
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
