import { assert, describe, it } from "@effect/vitest"
import { Engine } from "@kiln/core/effect"
import { JobKind, JobKinds, Text } from "@kiln/core/kinds"
import { type ClaimRequest, JobStore } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { Effect, Schema } from "effect"
import { storesWith } from "./support/faults.ts"
import { grantOf, kind, plainProviders, principal, within } from "./support/harness.ts"
import { readJob, submitSpeech } from "./support/jobs.ts"

const speech = kind("speech_synthesis")

const speechRequest = Schema.Struct({ input: Text(4_096), voice: Schema.optionalKey(Schema.String) })

/** The speech kind of a release, which records the versions that its attempts get. */
const released = (version?: number, readsFrom?: number, told: Array<number> = []): JobKind => ({
  ...speech,
  ...JobKind({
    name: speech.name,
    keyScope: speech.keyScope,
    request: speechRequest,
    files: ["audio"],
    price: "svc-audio",
    meters: speech.meters,
    switches: speech.gate.switches,
    providers: ["speech"],
    run: (attempt) => {
      told.push(attempt.kindVersion)
      return speech.run(attempt)
    },
    ...(version === undefined ? {} : { version }),
    ...(readsFrom === undefined ? {} : { readsFrom }),
  }),
})

describe("a job kind", () => {
  it("has version 1 and reads from version 1 by default", () => {
    const versionsOf = ({ readsFrom, version }: JobKind) => [readsFrom, version]
    assert.deepStrictEqual(versionsOf(released()), [1, 1])
    assert.deepStrictEqual(versionsOf(released(3)), [1, 3])
    assert.deepStrictEqual(versionsOf(released(3, 3)), [3, 3])
  })

  it("refuses invalid versions", () => {
    for (const version of [0, -1, 1.5, Number.NaN]) assert.throws(() => released(version), /positive integer/)
    for (const readsFrom of [0, 3, 1.5])
      assert.throws(() => released(2, readsFrom), /readsFrom of .* must be an integer from 1 to its version, 2/)
  })

  it("refuses a name that could be read as containing a version", () => {
    for (const name of ["", "speech@2"])
      assert.throws(
        () => JobKind({ name, request: Schema.Struct({}), run: () => Effect.die("never run") }),
        /a name must be 1 to 100 letters/,
      )
  })
})

/** Runs a test in a process of this release, with the claims of its worker. */
const inRelease = <A, E>(
  kinds: ReadonlyArray<JobKind>,
  test: (asked: ReadonlyArray<ClaimRequest>) => Effect.Effect<A, E, Engine | Worker | JobStore>,
) => {
  const asked: Array<ClaimRequest> = []
  const stores = storesWith(JobStore, (verbs) => ({
    claimJobs: (request) => {
      asked.push(request)
      return verbs.claimJobs(request)
    },
  }))
  return test(asked).pipe(
    within({ stores, sandbox: { speech: plainProviders.speech } }),
    Effect.provideService(JobKinds, kinds),
  )
}

describe("a process", () => {
  it.effect("accepts jobs by the version of its kind, and claims every version it can read", () =>
    inRelease([released(3, 2)], (asked) =>
      Effect.gen(function* () {
        const engine = yield* Engine
        const input = { input: "hello" }
        const { job } = yield* engine.createJob(grantOf(principal()), engine.kinds[0] ?? speech, input, "k")
        assert.strictEqual(job.kindVersion, 3)
        const worker = yield* Worker
        assert.strictEqual(yield* worker.tick, 1)
        assert.deepStrictEqual(asked[0]?.runnable, [
          { kind: "speech_synthesis", kindVersion: 2, mode: "sandbox" },
          { kind: "speech_synthesis", kindVersion: 3, mode: "sandbox" },
        ])
        const done = yield* readJob(job.id)
        assert.deepStrictEqual([done.status, done.kindVersion], ["done", 3])
      }),
    ),
  )

  it.effect("leaves jobs of a later version to others, and runs jobs of an earlier one with its version", () => {
    const told: Array<number> = []
    return inRelease([released(2, 1, told)], () =>
      Effect.gen(function* () {
        const engine = yield* Engine
        const worker = yield* Worker
        const later = yield* engine.createJob(grantOf(principal()), released(3), { input: "hello" }, "later")
        const earlier = yield* submitSpeech("earlier")
        assert.strictEqual(earlier.kindVersion, 1)
        assert.strictEqual(yield* worker.tick, 1)
        const [left, run] = [yield* readJob(later.job.id), yield* readJob(earlier.id)]
        assert.deepStrictEqual([left.status, run.status], ["queued", "done"])
        assert.deepStrictEqual(told, [1])
      }),
    )
  })
})
