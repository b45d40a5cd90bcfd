import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { mp3, speaks, within } from "./support/harness.ts"
import { finished, readJob, running, submitSpeech } from "./support/jobs.ts"

it.effect("a result is stored, however long a fiber takes to stop that the attempt has forked and left", () => {
  const slow = Effect.onInterrupt(Effect.never, () => Effect.sleep("1 hours"))
  const sandbox = speaks(() => Effect.as(Effect.forkChild(slow, { startImmediately: true }), mp3))
  return Effect.gen(function* () {
    const { id } = yield* submitSpeech("1")
    yield* running
    assert.strictEqual((yield* finished(id, "1 minutes")).status, "done")
    assert.strictEqual((yield* readJob(id)).attempts, 1)
  }).pipe(within({ sandbox }))
})
