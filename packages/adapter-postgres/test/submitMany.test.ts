import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { builtInKinds, createEngine } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { postgresStore } from "../src/index.ts"
import { begun, emptyDatabase } from "./support/databases.ts"

const jobs = (length: number, from = 0) =>
  Array.from({ length }, (_, n) => ({ request: { input: "hello" }, idempotencyKey: `chapter-${from + n}` }))

const arrange = Effect.gen(function* () {
  const url = yield* emptyDatabase
  const engine = yield* Effect.acquireRelease(
    Effect.promise(() =>
      createEngine({
        store: postgresStore({ url }),
        blobs: memoryBlobs(),
        kinds: builtInKinds(),
        worker: false,
        settings: { queueCap: 0 },
      }),
    ),
    (opened) => Effect.promise(() => opened.stop()),
  )
  return { engine, url }
})

it.live("a list of jobs is stored in order, each with its own outcome, in several calls", () =>
  Effect.gen(function* () {
    const { engine } = yield* arrange
    const outcomes = yield* Effect.promise(async () => {
      const first = await engine.submitMany("speech_synthesis", jobs(3))
      const invalid = { request: { input: "" }, idempotencyKey: "invalid" }
      return [...first, ...(await engine.submitMany("speech_synthesis", [...jobs(600, 1), invalid]))]
    })
    expect(outcomes.map(({ error, replayed }) => error?.code ?? replayed)).toEqual([
      false,
      false,
      false,
      true,
      true,
      ...Array.from({ length: 598 }, () => false),
      "invalid_request",
    ])
    expect([outcomes[3]?.job?.id, outcomes[4]?.job?.id]).toEqual([outcomes[1]?.job?.id, outcomes[2]?.job?.id])
  }),
)

it.live("a list of jobs in a transaction exists exactly if that commits", () =>
  Effect.gen(function* () {
    const { engine, url } = yield* arrange
    for (const end of ["ROLLBACK", "COMMIT"] as const) {
      const client = yield* begun(url)
      yield* Effect.promise(async () => {
        const outcomes = await engine.submitMany("speech_synthesis", jobs(501), { transaction: client })
        expect(outcomes.filter(({ replayed }) => replayed === false)).toHaveLength(501)
        await client.query(end)
      })
    }
    const again = yield* Effect.promise(() => engine.submitMany("speech_synthesis", jobs(502)))
    expect(again.map(({ replayed }) => replayed)).toEqual([...Array.from({ length: 501 }, () => true), false])
  }),
)
