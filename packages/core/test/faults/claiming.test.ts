import { assert, describe, it } from "@effect/vitest"
import { JobStore, Switchboard } from "@kiln/core/ports"
import { Effect } from "effect"
import { insteadOfFirst, makeOutage, storeDown, storesWith } from "../support/faults.ts"
import { mp3, plainProviders, speaks, within } from "../support/harness.ts"
import { finished, running, submitSpeech } from "../support/jobs.ts"
import { comesTrue, passTime } from "../support/virtualTime.ts"

describe("a worker continues to claim and keeps its claims", () => {
  it.effect("a failed heartbeat is followed by the next before any lease ends", () => {
    const break_ = insteadOfFirst(Effect.die(new TypeError("one bad row")))
    const stores = storesWith(JobStore, (store) => ({ extendLeases: (leases) => break_(store.extendLeases(leases)) }))
    return Effect.gen(function* () {
      yield* running
      const { id } = yield* submitSpeech("k")
      const job = yield* finished(id, "10 minutes")
      assert.deepStrictEqual([job.status, job.attempts, job.lostWorkers], ["done", 1, 0])
    }).pipe(within({ stores, sandbox: speaks(() => Effect.as(Effect.sleep("1 minutes"), mp3)) }))
  })

  it.effect("a job that cannot be released after an outage does not prevent further claims", () => {
    const outage = makeOutage(storeDown)
    let unreadable = ""
    const stores = storesWith(JobStore, (store) => ({
      claimJobs: (request) => outage.strikes(store.claimJobs(request)),
      extendLeases: (leases) => outage.strikes(store.extendLeases(leases)),
      releaseJobs: (claims) =>
        claims.some(({ jobId }) => jobId === unreadable)
          ? Effect.die(new TypeError("this row does not decode"))
          : outage.strikes(store.releaseJobs(claims)),
    }))
    const sandbox = speaks((_, { jobId }) => (jobId === unreadable ? Effect.never : Effect.succeed(mp3)))
    return Effect.gen(function* () {
      yield* running
      unreadable = (yield* submitSpeech("unreadable")).id
      yield* passTime("1 seconds")
      yield* outage.begin
      yield* passTime("40 seconds")
      yield* outage.end
      const { id } = yield* submitSpeech("another")
      assert.strictEqual((yield* finished(id, "10 minutes")).status, "done")
    }).pipe(within({ stores, sandbox }))
  })

  it.effect("the live kinds of a worker are published again after a failed publication", () => {
    const break_ = insteadOfFirst(Effect.die(new TypeError("one bad row")))
    const stores = storesWith(Switchboard, (board) => ({
      publishWorker: (worker) => break_(board.publishWorker(worker)),
    }))
    return Effect.gen(function* () {
      const board = yield* Switchboard
      assert.deepStrictEqual((yield* board.readBoard).liveKinds, [])
      const isPublished = Effect.map(board.readBoard, ({ liveKinds }) => liveKinds.includes("speech_synthesis"))
      assert.isTrue(yield* comesTrue(isPublished, "1 minutes"))
    }).pipe(within({ stores, live: plainProviders, worker: "running" }))
  })
})
