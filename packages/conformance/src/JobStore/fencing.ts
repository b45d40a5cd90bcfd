import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ClaimRef, type FencedOutcome, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, create, createAndClaim, findFile, openAudioGate, read } from "../arrange.ts"
import { check, type Check, type Section } from "../Check.ts"
import { charge, fileId, jobId, leaseDurationMs, newJob, newLiveJob, outputFile } from "../fixtures.ts"
import { repeatedEnds } from "./repeatedEnds.ts"

/** A verb that only the holder of a job may use, with arguments that would change a lot. `live` jobs need a charge. */
interface FencedVerb {
  readonly name: string
  /** The type of the end. A second end of the same type is a repeat of the first. */
  readonly end?: "completion" | "failure" | "return"
  readonly run: (
    claims: ReadonlyArray<ClaimRef>,
    live?: boolean,
  ) => Effect.Effect<ReadonlyArray<FencedOutcome>, unknown, JobStore>
}

const using = (
  f: (store: JobStore["Service"]) => Effect.Effect<ReadonlyArray<FencedOutcome>, unknown>,
): Effect.Effect<ReadonlyArray<FencedOutcome>, unknown, JobStore> => Effect.flatMap(JobStore, f)

const fencedVerbs: ReadonlyArray<FencedVerb> = [
  {
    name: "extendLeases",
    run: (claims) =>
      using((store) =>
        Effect.map(
          store.extendLeases(claims.map(({ jobId: id, token }) => ({ jobId: id, token, leaseDurationMs: 77_000 }))),
          (outcomes) => outcomes.map(({ _tag }) => (_tag === "Extended" ? "Written" : _tag)),
        ),
      ),
  },
  {
    name: "checkpointJobs",
    run: (claims) =>
      using((store) =>
        store.checkpointJobs(
          claims.map(({ jobId: id, token }) => ({ jobId: id, token, step: "reply", value: { text: "x" } })),
        ),
      ),
  },
  {
    name: "completeJobs",
    end: "completion",
    run: (claims, live = false) =>
      using((store) =>
        store.completeJobs(
          claims.map(({ jobId: id, token }, n) => ({
            jobId: id,
            token,
            output: { text: "x" },
            files: [outputFile({ job: { id }, token }, n + 1)],
            warningCode: "output_truncated",
            charge: live ? charge : null,
          })),
        ),
      ),
  },
  {
    name: "failJobs",
    end: "failure",
    run: (claims) =>
      using((store) =>
        store.failJobs(claims.map(({ jobId: id, token }) => ({ jobId: id, token, errorCode: "result_invalid" }))),
      ),
  },
  {
    name: "deferJobs",
    end: "return",
    run: (claims) =>
      using((store) =>
        store.deferJobs(
          claims.map(({ jobId: id, token }) => ({ jobId: id, token, delayMs: 5_000, countsAsFailure: true })),
        ),
      ),
  },
  {
    name: "releaseJobs",
    end: "return",
    run: (claims) => using((store) => store.releaseJobs(claims.map(({ jobId: id, token }) => ({ jobId: id, token })))),
  },
]

const endings = fencedVerbs.filter(({ end }) => end !== undefined)

/** Expects that a verb reports a lost claim and writes nothing. */
const expectLost = Effect.fnUntraced(function* (verb: FencedVerb, ref: ClaimRef, live = false) {
  const owner = live ? newLiveJob(1) : newJob(1)
  const before = yield* read(owner)
  expect(yield* verb.run([ref], live)).toEqual(["LeaseLost"])
  expect(yield* read(owner)).toEqual(before)
  expect(yield* findFile(fileId(1))).toBe(undefined)
})

const checksOf = (verb: FencedVerb): ReadonlyArray<Check> => [
  check(
    `${verb.name}: needs a claim and its very token`,
    Effect.gen(function* () {
      expect(yield* verb.run([{ jobId: jobId(1), token: 1 }])).toEqual(["LeaseLost"])
      yield* create(newJob(1))
      for (const token of [0, 1]) yield* expectLost(verb, { jobId: jobId(1), token })
      const { token } = yield* claimOne()
      for (const wrong of [token - 1, token + 1, -token]) yield* expectLost(verb, { jobId: jobId(1), token: wrong })
      expect(yield* verb.run([{ jobId: jobId(1), token }])).toEqual(["Written"])
    }),
  ),

  check(
    `${verb.name}: a lease that ended loses nothing until somebody takes over`,
    Effect.gen(function* () {
      const { token } = yield* createAndClaim()
      yield* advance(leaseDurationMs + 5)
      expect(yield* verb.run([{ jobId: jobId(1), token }])).toEqual(["Written"])
    }),
  ),

  check(
    `${verb.name}: a worker whose job was taken over writes nothing, its successor does`,
    Effect.gen(function* () {
      yield* openAudioGate
      const zombie = yield* createAndClaim(newLiveJob(1))
      yield* advance(leaseDurationMs)
      const successor = yield* claimOne()
      yield* expectLost(verb, { jobId: jobId(1), token: zombie.token }, true)
      expect(yield* verb.run([{ jobId: jobId(1), token: successor.token }], true)).toEqual(["Written"])
    }),
  ),

  ...endings.map((ending) => {
    const repeats = verb.end === ending.end
    return check(
      `${verb.name}: ${repeats ? "written already" : "not"} after ${ending.name} ended the claim`,
      Effect.gen(function* () {
        const { token } = yield* createAndClaim()
        expect(yield* ending.run([{ jobId: jobId(1), token }])).toEqual(["Written"])
        const before = yield* read(newJob(1))
        expect(before.token).toBe(token + 1)
        // No token holds the job: neither the claim's, nor the one to which the end raised it.
        for (const given of [token - 1, token, token + 1, token + 2]) {
          const expected = repeats && given === token ? "Written" : "LeaseLost"
          expect(yield* verb.run([{ jobId: jobId(1), token: given }]), `token ${given}`).toEqual([expected])
          expect(yield* read(newJob(1))).toEqual(before)
        }
      }),
    )
  }),

  ...endings.map((ending) =>
    check(
      `${verb.name}: a worker whose job was taken over writes nothing after ${ending.name} of its successor either`,
      Effect.gen(function* () {
        const zombie = yield* createAndClaim()
        yield* advance(leaseDurationMs)
        const successor = yield* claimOne()
        expect(yield* ending.run([{ jobId: jobId(1), token: successor.token }])).toEqual(["Written"])
        const before = [yield* read(newJob(1)), yield* findFile(fileId(1))]
        expect(yield* verb.run([{ jobId: jobId(1), token: zombie.token }])).toEqual(["LeaseLost"])
        expect([yield* read(newJob(1)), yield* findFile(fileId(1))]).toEqual(before)
      }),
    ),
  ),

  check(
    `${verb.name}: not after the job expired or was abandoned`,
    Effect.gen(function* () {
      const store = yield* JobStore
      const one = yield* createAndClaim(newJob(1, { limits: { queueLimitMs: 1, runLimitMs: 1_000 } }))
      yield* advance(1_000)
      expect(yield* store.expireJobs(1)).toHaveLength(1)
      yield* expectLost(verb, { jobId: jobId(1), token: one.token })
      yield* create(newJob(2))
      const two = yield* claimOne({ leaseDurationMs: 1 })
      yield* advance(1)
      expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toEqual([jobId(2)])
      const abandoned = yield* read(newJob(2))
      expect(yield* verb.run([{ jobId: jobId(2), token: two.token }])).toEqual(["LeaseLost"])
      expect(yield* read(newJob(2))).toEqual(abandoned)
    }),
  ),

  check(
    `${verb.name}: in a batch each item has its own outcome, in order`,
    Effect.gen(function* () {
      yield* create(newJob(1), newJob(2), newJob(3))
      const { claims } = yield* claim({ limit: 3 })
      const refs = claims.map(({ job, token }) => ({ jobId: job.id, token }))
      const [one, two, three] = refs
      if (one === undefined || two === undefined || three === undefined) throw new Error("expected three claims")
      const before = yield* read(newJob(2))
      expect(yield* verb.run([three, { ...two, token: 9 }, { jobId: jobId(9), token: 1 }, one])).toEqual([
        "Written",
        "LeaseLost",
        "LeaseLost",
        "Written",
      ])
      expect(yield* read(newJob(2))).toEqual(before)
      for (const n of [1, 3]) expect(yield* read(newJob(n))).not.toEqual({ ...before, id: jobId(n) })
      expect(yield* verb.run([])).toEqual([])
    }),
  ),

  check(
    `${verb.name}: the same claim twice in one batch`,
    Effect.gen(function* () {
      const { token } = yield* createAndClaim()
      const ref = { jobId: jobId(1), token }
      expect(yield* verb.run([ref, ref])).toEqual(["Written", "Written"])
      expect((yield* read(newJob(1))).token).toBe(verb.end === undefined ? token : token + 1)
    }),
  ),
]

/** Some stores complete jobs with a charge by another statement. */
const liveCompletion = check(
  "completeJobs: of a live job, no token that holds nothing is taken",
  Effect.gen(function* () {
    const store = yield* JobStore
    const verb = fencedVerbs.find(({ end }) => end === "completion")
    if (verb === undefined) throw new Error("expected completeJobs")
    yield* openAudioGate
    yield* create(newLiveJob(1))
    for (const token of [0, 1]) yield* expectLost(verb, { jobId: jobId(1), token }, true)
    const { token } = yield* claimOne()
    for (const wrong of [token - 1, token + 1]) yield* expectLost(verb, { jobId: jobId(1), token: wrong }, true)
    yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 5_000, countsAsFailure: true }])
    for (const old of [token, token + 1]) yield* expectLost(verb, { jobId: jobId(1), token: old }, true)
  }),
)

/** A worker with a lost claim can change nothing. A repeated call by the same claim is not a lost claim. */
export const fencing: Section = {
  name: "JobStore: fencing",
  checks: [
    ...fencedVerbs.flatMap(checksOf),

    liveCompletion,

    ...repeatedEnds,
  ],
}
