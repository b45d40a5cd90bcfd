import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { createEngine } from "@kiln/core"
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
      createEngine({ store: sqliteStore({ path }), blobs: memoryBlobs(), providers: { sandbox: sandboxProviders() } }),
    ),
    (opened) => Effect.promise(() => opened[Symbol.asyncDispose]()),
  )
  const connection = yield* callerConnection(path)
  const kysely = yield* callerKysely(path)
  return { engine, connection, kysely }
})

it.live("a job submitted in a transaction runs after its commit, and there is none after its rollback", () =>
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

it.live("what is no transaction does not compile, and is refused", () =>
  Effect.gen(function* () {
    const { connection, engine, kysely } = yield* arrange
    const refusals = [
      // @ts-expect-error Kysely itself is no transaction
      () => engine.submit("speech_synthesis", speech, { transaction: kysely }),
      async () => {
        const { transaction } = await beginKysely(kysely)
        // @ts-expect-error a transaction of Kysely has no synchronous verbs
        engine.submitSync("speech_synthesis", speech, { transaction })
      },
      // Not begun, which no type shows.
      () => engine.submit("speech_synthesis", speech, { transaction: connection }),
    ]
    for (const refused of refusals)
      expect(yield* Effect.promise(() => refused().catch((error: unknown) => error))).toBeInstanceOf(TypeError)
  }),
)
