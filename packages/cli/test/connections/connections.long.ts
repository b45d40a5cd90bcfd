import { expect, it } from "vitest"
import { fuzz } from "./support/fuzz.ts"
import { planFrom } from "./support/planFrom.ts"
import { megabytesAllowed } from "./support/Target.ts"

// By `pnpm fuzz:connections` the same with other numbers.
const { connections, only, seed, targets } = planFrom(process.env)

it.each(targets)(
  `%s survives ${connections} broken and hostile connections, and answers another client within 250 ms`,
  { timeout: 3_600_000 },
  async (target) => {
    const report = await fuzz({ connections, seed, target, ...(only !== undefined && { only }) })
    const { bytesRead, failure, overdue, peakMegabytes, probe, refused, seconds } = report
    process.stdout.write(
      `figure: hostile connections to ${target} (seed ${seed}): ${report.connections} in ${seconds} s, ${bytesRead} bytes read, ` +
        `most memory ${peakMegabytes} MB, another client's ${probe.asked} requests: ${JSON.stringify(probe)}\n`,
    )
    expect(failure).toBeUndefined()
    expect({ connections: report.connections, overdue, refused }, report.firstOverdue).toEqual({
      connections,
      overdue: 0,
      refused: 0,
    })
    expect(probe.unanswered).toBe(0)
    // This tier runs alone: the client's own measurement holds, without allowance for a busy machine.
    expect(probe.whole.max).toBeLessThan(250)
    expect(peakMegabytes ?? 0).toBeLessThan(megabytesAllowed)
  },
)
