import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { heldBack, type WaitingFacts, waitingFor, waitingReasons, type WorkerFacts } from "../src/domain/WaitingFor.ts"

const kind = fc.constantFrom("speech_synthesis", "report")
const mode = fc.constantFrom("live" as const, "sandbox" as const)
const count = fc.nat(4)

const rate = fc.record({ provider: fc.constantFrom(null, "speech"), limit: fc.constant(10), perMs: fc.constant(1_000) })
const served = fc.record({
  kind,
  fromVersion: fc.constantFrom(1, 2),
  toVersion: fc.constantFrom(2, 3),
  modes: fc.subarray(["live" as const, "sandbox" as const]),
  providers: fc.subarray(["speech"]),
  switches: fc.subarray(["ai", "audio"]),
  limit: fc.constantFrom(null, 1, 2),
  rates: fc.array(rate, { maxLength: 1 }),
})
const scope = fc.record({
  slots: fc.constantFrom(1, 2),
  share: fc.constantFrom(0, 1),
  perProject: fc.constantFrom(0, 1),
  forcedOff: fc.subarray(["ai"]),
  kinds: fc.array(served, { maxLength: 2 }),
})
const standing = fc.constantFrom<WorkerFacts["providers"][number]>(
  { provider: "speech", status: "ready", reason: null },
  { provider: "speech", status: "paused", reason: "quota", nextTryAt: 1_500 },
  { provider: "speech", status: "paused", reason: "failing" },
)
const worker: fc.Arbitrary<WorkerFacts> = fc
  .tuple(fc.subarray(["speech_synthesis", "report"]), standing, fc.option(scope, { nil: undefined }))
  .map(([liveKinds, one, published]) => ({ liveKinds, providers: [one], ...(published && { scope: published }) }))

const now = 1_000

/** Unfinished and finished jobs, at every moment of their lives. */
const facts: fc.Arbitrary<WaitingFacts> = fc
  .record({
    kind,
    mode,
    kindVersion: fc.constantFrom(1, 2, 3),
    attempts: count,
    held: fc.boolean(),
    claimableAt: fc.constantFrom(null, now - 1, now, now + 1, now + 500),
    pausedKinds: fc.subarray(["speech_synthesis"]),
    switchesOn: fc.subarray(["ai", "audio"]),
    needed: fc.subarray(["ai", "audio"]),
    workers: fc.array(worker, { maxLength: 3 }),
    running: fc.record({ kind: count, project: count, all: count }),
    ahead: count,
    wait: fc.constantFrom("children", "after", "provider", "gate", "store", "blobs", "isolation", undefined),
    waitedAt: count,
    failedAt: count,
    unfinishedJobs: count,
    limit: fc.constantFrom(undefined, 0, 1),
  })
  .map((given) => ({
    job: {
      kind: given.kind,
      mode: given.mode,
      kindVersion: given.kindVersion,
      projectId: "prj_1",
      status: given.claimableAt === null ? "done" : given.attempts === 0 ? "queued" : "processing",
      attempts: given.attempts,
      held: given.held && given.attempts > 0 && given.claimableAt !== null,
      claimableAt: given.claimableAt,
    },
    board: {
      pausedKinds: given.pausedKinds,
      switches: {
        images: false,
        ai: given.switchesOn.includes("ai"),
        audio: given.switchesOn.includes("audio"),
      },
      projectConcurrency: given.limit === undefined ? {} : { prj_1: given.limit },
    },
    switches: given.needed,
    workers: given.workers,
    place: { now, ahead: given.ahead, running: given.running },
    failed: given.failedAt === 0 ? undefined : { number: given.failedAt, errorCode: "provider_unavailable" as const },
    waited:
      given.wait === undefined
        ? undefined
        : {
            reason: given.wait,
            subject:
              given.wait === "gate"
                ? "switch:ai, price:svc-audio, spend_cap:key"
                : given.wait === "provider"
                  ? "speech"
                  : null,
            cause: given.wait === "provider" ? "quota" : null,
            firstAttempt: given.waitedAt,
            lastAttempt: given.waitedAt,
            count: 1,
            firstAt: 0,
            lastAt: 0,
          },
    unfinishedJobs: given.unfinishedJobs,
  }))

const check = (property: (given: WaitingFacts) => void) => () =>
  fc.assert(fc.property(facts, property), { numRuns: 2_000 })
const reasonsOf = (given: WaitingFacts) => waitingFor(given).map(({ reason }) => reason)
const isWaiting = ({ job }: WaitingFacts) => job.claimableAt !== null && !(job.held && job.claimableAt > now)

describe("waitingFor", () => {
  it(
    "names a reason for each waiting job, and none for running and finished ones",
    check((given) => assert.strictEqual(waitingFor(given).length > 0, isWaiting(given))),
  )

  it(
    "names only listed reasons, each once for a subject",
    check((given) => {
      const found = waitingFor(given)
      for (const { reason } of found) assert.include(waitingReasons, reason)
      assert.strictEqual(new Set(found.map(({ reason, subject }) => `${reason} ${subject}`)).size, found.length)
    }),
  )

  it(
    "the line, and the rate at which it moves, are named only if nothing else holds the job back",
    check((given) => {
      const reasons = reasonsOf(given)
      assert.isTrue(reasons.length === 1 || !(reasons.includes("line") || reasons.includes("rate")))
    }),
  )

  it(
    "whatever holds back its kind holds back a waiting job, and a paused kind always does",
    check((given) => {
      if (!isWaiting(given)) return
      const found = waitingFor(given)
      for (const blocker of heldBack(given.job, given)) assert.deepInclude(found, blocker)
      const isPaused = given.board.pausedKinds.includes(given.job.kind)
      assert.strictEqual(reasonsOf(given).includes("kind_paused"), isPaused)
    }),
  )

  it(
    "switches and providers hold back live jobs only, unless children need them",
    check((given) => {
      const blockers = waitingFor(given).filter(({ reason }) => reason === "switch_off" || reason === "provider_paused")
      const isOfLiveJob = given.job.mode === "live"
      assert.isTrue(isOfLiveJob || blockers.every(({ cause, until }) => cause === "children" || until !== null))
    }),
  )

  it(
    "a job that may not be claimed yet says when, and no limit is named for it",
    check((given) => {
      const { claimableAt } = given.job
      if (!isWaiting(given) || claimableAt === null || claimableAt <= now) return
      const found = waitingFor(given)
      for (const { reason } of found)
        assert.notInclude(["slots", "kind_limit", "project_limit", "project_share"], reason)
      const paused = found.some(({ reason }) => reason === "provider_paused")
      const missing = found.some(({ reason }) => reason === "switch_off")
      assert.isTrue(paused || missing || found.some(({ until }) => until === claimableAt))
    }),
  )

  it(
    "one worker that serves the kind, with its providers ready, is enough",
    check((given) => {
      const { kind: name, kindVersion, mode: of } = given.job
      const able = {
        kind: name,
        fromVersion: kindVersion,
        toVersion: kindVersion,
        modes: [of],
        providers: ["speech"],
        switches: [],
        limit: null,
        rates: [],
      }
      const helper: WorkerFacts = {
        liveKinds: [name],
        providers: [{ provider: "speech", status: "ready", reason: null }],
        scope: { slots: 99, share: 0, perProject: 0, forcedOff: [], kinds: [able] },
      }
      const reasons = heldBack(given.job, { ...given, workers: [...given.workers, helper] })
      for (const { cause, reason } of reasons) {
        assert.notInclude(["no_worker", "provider_paused"], reason)
        assert.notStrictEqual(cause, "settings")
      }
    }),
  )
})
