import { readFileSync } from "node:fs"

/** Returns the largest resident set of a process so far, in MB (10^6 bytes); undefined where there is no /proc. */
export const peakMbOf = (pid: number | "self"): number | undefined => {
  try {
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
    return kib === undefined ? undefined : (Number(kib) * 1_024) / 1e6
  } catch {
    return undefined
  }
}

/** Returns the largest resident set of this process so far, in MB. */
export const peakMb = (): number =>
  // The kernel's figure of this program alone; `maxRSS` may contain that of the parent before the program was loaded.
  peakMbOf("self") ?? (process.resourceUsage().maxRSS * 1_024) / 1e6
