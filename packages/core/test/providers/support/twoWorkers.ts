import { defaultEngineSettings, EngineConfig, type EngineSettings } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Clock, Context, Effect, Layer } from "effect"
import { mp3, speaks, type Stores, within } from "../../support/harness.ts"
import { readJob, running } from "../../support/jobs.ts"
import { live, open, submitMany } from "../../support/liveSpeech.ts"
import { passTime, stopped } from "../../support/virtualTime.ts"

/** Starts another worker over the same stores, like another process. */
export const anotherWorker = (settings: Partial<EngineSettings>) =>
  Effect.gen(function* () {
    const worker = Context.get(yield* Layer.build(Layer.fresh(Worker.layer)), Worker)
    yield* Effect.acquireRelease(Effect.forkDetach(worker.run), (fiber) => stopped(fiber, "10 minutes"))
  }).pipe(Effect.provideService(EngineConfig, { ...defaultEngineSettings, ...settings }))

export const rated = (rate: { limit: number; perMs: number; burst?: number }): Partial<EngineSettings> => ({
  providers: {
    ...defaultEngineSettings.providers,
    speech: { ...defaultEngineSettings.providers.speech, concurrency: 0, rate },
  },
})

/** Speech that records when it was called. */
export const timedSpeech = () => {
  const calls: Array<number> = []
  const speech = () =>
    Effect.andThen(
      Effect.map(Clock.currentTimeMillis, (now) => void calls.push(now)),
      Effect.as(Effect.sleep("20 millis"), mp3),
    )
  return { calls, providers: speaks(speech) }
}

/** Two workers with 200 jobs, under a rate of 60 a minute and 8 at once. Returns the calls of the first minute, and the failures. */
export const twoWorkers = (stores: Layer.Layer<Stores> = MemoryStores.layer) => {
  const { calls, providers } = timedSpeech()
  const settings = rated({ limit: 60, perMs: 60_000, burst: 8 })
  return Effect.gen(function* () {
    yield* open
    const jobs = yield* submitMany(200)
    yield* running
    yield* anotherWorker(settings)
    yield* passTime("1 minute")
    const read = yield* Effect.forEach(jobs, ({ id }) => readJob(id, live))
    return { calls: calls.length, failures: read.reduce((sum, { failures }) => sum + failures, 0) }
  }).pipe(within({ live: providers, settings, stores }))
}
