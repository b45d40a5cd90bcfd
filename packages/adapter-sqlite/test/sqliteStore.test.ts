import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { builtInKinds, createEngine } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { sqliteStore } from "../src/index.ts"
import { beginKysely, beginOn, callerConnection, callerKysely } from "./support/callers.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const speech = { input: "in a transaction" }

const arrange = Effect.gen(function* () {
  const path = yield* temporaryFile
  const engine = yield* Effect.acquireRelease(
    Effect.promise(() =>
      createEngine({
        store: sqliteStore({ path }),
        blobs: memoryBlobs(),
        kinds: builtInKinds(),
        providers: { sandbox: sandboxProviders() },
        settings: { queueCap: 0 },
      }),
    ),
    (opened) => Effect.promise(() => opened[Symbol.asyncDispose]()),
  )
  const connection = yield* callerConnection(path)
  const kysely = yield* callerKysely(path)
  return { engine, connection, kysely }
})

it.live("a job submitted in a transaction runs after its commit, and does not exist after its rollback", () =>
  Effect.gen(function* () {
    const { connection, engine, kysely } = yield* arrange
    const submitted = yield* Effect.promise(async () => {
      const jobs = { committed: [] as Array<string>, rolledBack: [] as Array<string> }
      for (const begin of [() => Promise.resolve(beginOn(connection)), () => beginKysely(kysely)]) {
        const dropped = await begin()
        jobs.rolledBack.push((await engine.submit("speech_synthesis", speech, { transaction: dropped.transaction })).id)
        await dropped.rollback()
        const kept = await begin()
        jobs.committed.push((await engine.submit("speech_synthesis", speech, { transaction: kept.transaction })).id)
        await kept.commit()
      }
      return jobs
    })
    for (const id of submitted.committed)
      expect(yield* Effect.promise(() => engine.wait(id, { timeoutMs: 10_000 }))).toMatchObject({ status: "done" })
    for (const id of submitted.rolledBack)
      expect(yield* Effect.promise(() => engine.get(id).catch((error: unknown) => error))).toMatchObject({
        code: "job_not_found",
      })
  }),
)

it.live("without waiting, in the middle of a synchronous transaction", () =>
  Effect.gen(function* () {
    const { connection, engine } = yield* arrange
    const { commit, transaction } = beginOn(connection)
    const job = engine.submitSync("speech_synthesis", speech, { transaction })
    yield* Effect.promise(commit)
    expect(yield* Effect.promise(() => engine.wait(job, { timeoutMs: 10_000 }))).toMatchObject({ status: "done" })
  }),
)

const chapters = (length: number, from = 0) =>
  Array.from({ length }, (_, n) => ({ request: speech, idempotencyKey: `chapter-${from + n}` }))

it.live("a list of jobs is stored in order, each with its own outcome, in several calls", () =>
  Effect.gen(function* () {
    const { engine } = yield* arrange
    const outcomes = yield* Effect.promise(async () => {
      const first = await engine.submitMany("speech_synthesis", chapters(3))
      const invalid = { request: { input: "" }, idempotencyKey: "invalid" }
      return [...first, ...(await engine.submitMany("speech_synthesis", [...chapters(600, 1), invalid]))]
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
    const { connection, engine, kysely } = yield* arrange
    yield* Effect.promise(async () => {
      for (const [round, begin] of [() => Promise.resolve(beginOn(connection)), () => beginKysely(kysely)].entries()) {
        const list = chapters(501, round * 1_000)
        for (const end of ["rollback", "commit"] as const) {
          const begun = await begin()
          const outcomes = await engine.submitMany("speech_synthesis", list, { transaction: begun.transaction })
          expect(outcomes.filter(({ replayed }) => replayed === false)).toHaveLength(501)
          await begun[end]()
        }
      }
      const begun = beginOn(connection)
      const transaction = begun.transaction
      const outcomes = engine.submitManySync("speech_synthesis", chapters(2, 500), { transaction })
      expect(outcomes.map(({ replayed }) => replayed)).toEqual([true, false])
      await begun.commit()
      const again = await engine.submitMany("speech_synthesis", chapters(502))
      expect(again.every(({ replayed }) => replayed)).toBe(true)
    })
  }),
)

it.live("a handle that is not a transaction does not compile, and is rejected", () =>
  Effect.gen(function* () {
    const { connection, engine, kysely } = yield* arrange
    const refusals = [
      // @ts-expect-error Kysely itself is not a transaction
      () => engine.submit("speech_synthesis", speech, { transaction: kysely }),
      async () => {
        const { transaction } = await beginKysely(kysely)
        // @ts-expect-error a transaction of Kysely has no synchronous verbs
        engine.submitSync("speech_synthesis", speech, { transaction })
      },
      // Types do not show that the transaction was not begun.
      () => engine.submit("speech_synthesis", speech, { transaction: connection }),
    ]
    for (const refused of refusals)
      expect(yield* Effect.promise(() => refused().catch((error: unknown) => error))).toBeInstanceOf(TypeError)
  }),
)
