import { readFileSync } from "node:fs"

/** The largest resident set of this process so far, in MB (10^6 bytes). */
export const peakMb = (): number => {
  try {
    // The kernel's figure of this program alone; `maxRSS` may contain that of the parent before the program was loaded.
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? []
    if (kib !== undefined) return (Number(kib) * 1_024) / 1e6
  } catch {
    // Not Linux.
  }
  return (process.resourceUsage().maxRSS * 1_024) / 1e6
}
