import { jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { ScheduleStore } from "@kiln/core/ports"
import { testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"

describe("what cannot be handled, more than one page of it, does not keep the rest waiting:", () => {
  it("schedules of kinds that this process does not know", async () => {
    const digest = jobKind({ name: "digest", request: z.object({}), run: async () => ({ output: {} }) })
    await using kiln = await testEngine({ kinds: [digest] })
    await kiln.schedules.set("z", { kind: "digest", request: {}, everyMs: 3_600_000 })
    const write = ScheduleStore.use((store) =>
      Effect.gen(function* () {
        const { now, schedules } = yield* store.listSchedules
        const document = schedules[0]?.document.replaceAll('"digest"', '"unknown"') ?? ""
        for (let n = 0; n < 510; n++) yield* store.writeSchedule(`a${n}`, 0, { nextAt: now - 1_000, document })
      }),
    )
    await Effect.runPromiseWith(embeddedContext(kiln))(write)
    await kiln.advance(3_600_000)
    expect((await kiln.operator.list()).jobs.map(({ kind, status }) => [kind, status])).toEqual([["digest", "done"]])
  })

  it("deliveries whose calls fail", async () => {
    const told: Array<number> = []
    const digest = jobKind({
      name: "digest",
      request: z.object({ n: z.number() }),
      metadata: ["n"],
      run: async () => ({ output: {} }),
      onFinished: async ({ job }) => {
        const { n } = job.metadata as { n: number }
        if (n < 30) throw new Error("the receiver is down")
        told.push(n)
      },
    })
    await using kiln = await testEngine({ kinds: [digest], mode: "manual", log: () => undefined })
    for (let n = 0; n <= 30; n++) await kiln.submit("digest", { n })
    await kiln.drain()
    await kiln.advance(0)
    expect(told).toEqual([30])
  })
})
