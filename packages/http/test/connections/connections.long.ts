import { expect, it } from "vitest"
import { fuzz } from "./support/fuzz.ts"
import { targetNames } from "./support/Target.ts"

const plan = { connections: 100_000, seed: 1 }

it.each(targetNames)(
  "%s survives a hundred thousand broken and hostile connections, and answers another client within 250 ms",
  { timeout: 3_600_000 },
  async (target) => {
    const { failure, overdue, peakMegabytes, probe, refused, seconds, ...report } = await fuzz({ ...plan, target })
    process.stdout.write(
      `figure: hostile connections to ${target} (seed ${plan.seed}): ${report.connections} in ${seconds} s, most memory ` +
        `${peakMegabytes} MB, another client's ${probe.asked} requests took ${probe.target.max} ms at most, p99 ${probe.target.p99} ms\n`,
    )
    expect(failure).toBeUndefined()
    expect({ connections: report.connections, overdue, refused }).toEqual({
      connections: plan.connections,
      overdue: 0,
      refused: 0,
    })
    expect(probe.unanswered).toBe(0)
    expect(probe.target.max).toBeLessThan(250)
    if (peakMegabytes !== undefined) expect(peakMegabytes).toBeLessThan(300)
  },
)
