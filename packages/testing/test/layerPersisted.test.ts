import { expect, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { JobDirectory, JobStore, Switchboard } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { MemoryStores } from "../src/index.ts"

const { jobId, newJob } = fixtures

const capabilities = { durable: true, multiProcess: false }

/** What the stores save of a state with one job and a paused kind. */
const savedText = Effect.gen(function* () {
  let saved = Option.none<string>()
  const save = (text: string) => Effect.sync(() => void (saved = Option.some(text)))
  yield* Effect.gen(function* () {
    const store = yield* JobStore
    const board = yield* Switchboard
    yield* board.pauseKind("transcription", true)
    yield* store.createJobs([newJob(1, { priority: "high", metadata: { model: "small" } })])
  }).pipe(Effect.provide(MemoryStores.layerPersisted({ capabilities, load: Effect.succeed(undefined), save })))
  return Option.getOrThrow(saved)
})

/** What stores that load this text show of it. */
const shownOf = Effect.fnUntraced(function* (text: string) {
  const load = Effect.succeed(text)
  return yield* Effect.gen(function* () {
    const directory = yield* JobDirectory
    const board = yield* Switchboard
    const [job] = yield* directory.readJobs([jobId(1)])
    return [job?.priority, job?.metadata, (yield* board.readBoard).pausedKinds]
  }).pipe(Effect.provide(MemoryStores.layerPersisted({ capabilities, load, save: () => Effect.void })))
})

it.effect("saved state is loaded, with priorities, kept fields and paused kinds", () =>
  Effect.gen(function* () {
    expect(yield* shownOf(yield* savedText)).toEqual(["high", { model: "small" }, ["transcription"]])
  }),
)
