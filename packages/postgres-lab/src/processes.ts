import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

interface Process {
  readonly pid: number
  readonly parent: number
  /** State as reported by the system; begins with Z for a zombie. */
  readonly state: string
}

/** Returns the child processes of `pid`. */
export const childrenOf = (pid: number): ReadonlyArray<number> =>
  processes()
    .filter(({ parent }) => parent === pid)
    .map((child) => child.pid)

/** Returns whether any of these processes is running. */
export const isAnyRunning = (pids: ReadonlyArray<number>): boolean =>
  processes().some(({ pid, state }) => pids.includes(pid) && !state.startsWith("Z"))

/** Sends the signal; no-op if the process has ended. */
export const signalIfThere = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error
  }
}

// Minimal Linux images have no `ps`.
const processes = (): ReadonlyArray<Process> => (process.platform === "linux" ? fromProc() : fromPs())

const fromProc = (): ReadonlyArray<Process> =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // "pid (name) state parent …", where the name may contain any characters, including parentheses.
        const [state = "", parent] = readFileSync(`/proc/${name}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? []
        return [{ pid: Number(name), parent: Number(parent), state }]
      } catch {
        return [] // ended while being read
      }
    })

const fromPs = (): ReadonlyArray<Process> =>
  execFileSync("ps", ["-Ao", "pid=,ppid=,stat="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((line) => {
      const [pid, parent, state = ""] = line.trim().split(/\s+/)
      return { pid: Number(pid), parent: Number(parent), state }
    })
