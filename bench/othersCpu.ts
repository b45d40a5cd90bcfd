import { readdirSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"

/** Milliseconds in a tick of the counters in /proc. */
const tickMs = 10

const fieldsOf = (path: string): ReadonlyArray<string> => {
  try {
    return readFileSync(path, "latin1").split(/\s+/)
  } catch {
    // The process has ended.
    return []
  }
}

interface Process {
  readonly parent: number
  readonly name: string
  /** Its own time, and that of children whose end it has seen. */
  readonly ticks: number
}

const processOf = (pid: string): Process | undefined => {
  // The name of a program, in parentheses, may have spaces.
  const [name = "", rest] = fieldsOf(`/proc/${pid}/stat`)
    .join(" ")
    .split(/\) (?!.*\) )/)
  const fields = rest?.split(" ")
  if (fields === undefined) return undefined
  return { parent: Number(fields[1]), name, ticks: fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) }
}

/** The time of this process, of all that it has started, and of the kernel, which writes what they wrote; in ticks. */
const ownTicks = (): number => {
  const processes = new Map(
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        const found = processOf(pid)
        return found === undefined ? [] : [[Number(pid), found] as const]
      }),
  )
  const isOwn = (pid: number): boolean =>
    pid === process.pid ||
    processes.get(pid)?.name.endsWith("(kthreadd") === true ||
    (pid > 1 && isOwn(processes.get(pid)?.parent ?? 0))
  return [...processes].reduce((sum, [pid, { ticks }]) => (isOwn(pid) ? sum + ticks : sum), 0)
}

/** The time of all processes, and what the hypervisor gave to other machines, in ticks. */
const allTicks = (): number => {
  const [, user, nice, system, , , , , steal] = fieldsOf("/proc/stat")
  return [user, nice, system, steal].reduce((sum, ticks) => sum + Number(ticks), 0)
}

/** A moment from which the processor time of others counts; `undefined` where the system does not tell. */
export const watchOthers = (): { readonly share: () => number } | undefined => {
  try {
    const [all, own, at] = [allTicks(), ownTicks(), performance.now()]
    if (Number.isNaN(all + own)) return undefined
    return {
      /** The part of the machine's processors that other programs have used since then, from 0 to 1. */
      share: () => {
        const others = allTicks() - all - (ownTicks() - own)
        return Math.max(0, (others * tickMs) / ((performance.now() - at) * availableParallelism()))
      },
    }
  } catch {
    return undefined
  }
}
