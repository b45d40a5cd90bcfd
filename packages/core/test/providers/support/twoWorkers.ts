import { defaultEngineSettings, EngineConfig, type EngineSettings } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { Clock, Context, Effect, Layer } from "effect"
import { mp3, speaks } from "../../support/harness.ts"
import { stopped } from "../../support/virtualTime.ts"

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
