import { answerLate, defaultAnswers, failBroken, makeFakeProviders } from "@kiln/testing"
import { Effect } from "effect"
import { within } from "../../support/harness.ts"
import { finished, running } from "../../support/jobs.ts"
import { live, open, settings, standingOf, submitMany } from "../../support/liveSpeech.ts"

/**
 * Two calls are in progress when the second one learns that the provider is broken. The first gets its response 30 s later, within
 * the pause. Returns the status of the first call's job and of the provider after that.
 */
export const answerFromBefore = Effect.suspend(() => {
  const fake = makeFakeProviders()
  fake.script("speech", answerLate(30_000, defaultAnswers.speech), failBroken({ reason: "quota" }))
  return Effect.gen(function* () {
    yield* open
    const [first] = yield* submitMany(2)
    yield* running
    const { status } = yield* finished(first?.id ?? "", "35 seconds", live)
    return { job: status, provider: (yield* standingOf("speech"))?.status }
  }).pipe(within({ live: fake.providers, settings }))
})
