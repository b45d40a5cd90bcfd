import { Clock, Context, Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { describe, expect, it } from "vitest"
import { storeSections, type Stores } from "@kiln/conformance"
import type { JobId } from "@kiln/core/domain"
import { JobStore, UploadStore } from "@kiln/core/ports"
import { simulateRuns } from "@kiln/simulation"
import { MemoryStores } from "@kiln/testing"

// Bugs of a store, each a replaced verb of the memory stores. The suite that holds the promise must fail.

interface PlantedBug {
  readonly bug: string
  /** The row of docs/invariants.md. */
  readonly promise: number
  readonly stores: Layer.Layer<Stores>
}

/** The memory stores with other verbs of a port. Claims are made apart from other writes, so that one verb makes each. */
const replacing = <Port extends Stores, Verbs extends object>(
  port: Context.Key<Port, Verbs>,
  change: (verbs: Verbs) => Partial<Verbs>,
): Layer.Layer<Stores> =>
  Layer.effectContext(
    Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (built) => {
      const verbs = Context.get(built, port)
      const changed = Context.add(built, port, { ...verbs, ...change(verbs) })
      const jobs = Context.get(changed, JobStore)
      return Context.add(changed, JobStore, {
        ...jobs,
        createAndClaimJobs: (items) =>
          Effect.map(jobs.createJobs(items), (created) => ({ created, claimed: undefined })),
        completeAndClaimJobs: (items) =>
          Effect.map(jobs.completeJobs(items), (completed) => ({ completed, claimed: undefined })),
      })
    }),
  )

const inJobs = (change: (jobs: JobStore["Service"]) => Partial<JobStore["Service"]>) => replacing(JobStore, change)
const inUploads = (change: (uploads: UploadStore["Service"]) => Partial<UploadStore["Service"]>) =>
  replacing(UploadStore, change)

/** Runs a verb with a clock that differs from the store's by this. */
const aheadBy =
  (ms: number) =>
  <A, E, R>(verb: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Clock.Clock, (clock) =>
      Effect.provideService(verb, Clock.Clock, {
        ...clock,
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + ms,
      }),
    )

/** Each breaks this invariant of the simulation. */
const inSimulation: ReadonlyArray<PlantedBug & { readonly breaks: string | RegExp }> = [
  {
    bug: "an outage counts as a failure of the job",
    promise: 11,
    stores: inJobs(({ deferJobs }) => ({
      deferJobs: (items) => deferJobs(items.map((item) => ({ ...item, countsAsFailure: true }))),
    })),
    breaks: "only providers' failures count as failures",
  },
  {
    bug: "a job may lose one worker too many",
    promise: 11,
    stores: inJobs(({ claimJobs }) => ({
      claimJobs: (request) => claimJobs({ ...request, maxLostWorkers: request.maxLostWorkers + 1 }),
    })),
    breaks: "budgets end a job",
  },
  {
    bug: "a heartbeat is confirmed, and extends the lease by a millisecond",
    promise: 17,
    stores: inJobs(({ extendLeases }) => ({
      extendLeases: (items) =>
        Effect.map(extendLeases(items.map((item) => ({ ...item, leaseDurationMs: 1 }))), (outcomes) =>
          outcomes.map((outcome, at) => ({ ...outcome, leaseRemainingMs: items[at]?.leaseDurationMs ?? 0 })),
        ),
    })),
    breaks: "only lost workers are counted",
  },
  {
    bug: "a claim comes without its checkpoints",
    promise: 19,
    stores: inJobs(({ claimJobs }) => ({
      claimJobs: (request) =>
        Effect.map(claimJobs(request), (result) => ({
          ...result,
          claims: result.claims.map((claim) => ({ ...claim, job: { ...claim.job, checkpoints: {} } })),
        })),
    })),
    // After a wait, the attempt that pays again has the number of the one before.
    breaks: /^(a checkpointed step is not paid for again|provider calls are at most the attempts)$/,
  },
  {
    bug: "a repeated request with the same idempotency key creates another job",
    promise: 20,
    stores: inJobs(({ createJobs }) => {
      let count = 0
      return {
        createJobs: (items) =>
          createJobs(items.map((item) => ({ ...item, idempotencyKey: `${item.idempotencyKey}-${count++}` }))),
      }
    }),
    // If the request names an upload, its repeat is refused: the first job has used that.
    breaks: /^(one job per idempotency key|refusals are true)$/,
  },
  {
    bug: "a transfer is taken over before its lease ends",
    promise: 31,
    stores: inUploads(({ claimUpload }) => ({
      claimUpload: (transfer) => aheadBy(60_000)(claimUpload(transfer)),
    })),
    breaks: "uploads",
  },
  {
    bug: "orphans are never found",
    promise: 33,
    stores: inJobs(() => ({ findOrphans: () => Effect.succeed([]) })),
    breaks: "no orphan stays forever",
  },
  {
    bug: "the blobs of a running attempt are orphans",
    promise: 33,
    stores: inJobs(({ findOrphans }) => ({
      findOrphans: (blobs) => findOrphans(blobs.map((blob) => ({ ...blob, token: 0 }))),
    })),
    breaks: "blob first, row second",
  },
  {
    bug: "a failed removal is never retried",
    promise: 37,
    stores: inJobs(() => ({ nextPurges: () => Effect.succeed([]) })),
    breaks: "purges are retried until done",
  },
  {
    bug: "a stopping worker's release is confirmed but not written",
    promise: 55,
    stores: inJobs(({ checkClaims }) => ({
      releaseJobs: (items) =>
        Effect.map(checkClaims(items), (held) =>
          held.map((isHeld) => (isHeld ? ("Written" as const) : ("LeaseLost" as const))),
        ),
    })),
    breaks: "only lost workers are counted",
  },
  {
    bug: "a job that completed before its cancellation is reported as canceled",
    promise: 67,
    stores: inJobs(({ cancelJobs }) => ({
      cancelJobs: (ids: ReadonlyArray<JobId>) =>
        Effect.map(cancelJobs(ids), (outcomes) =>
          outcomes.map((outcome) => (outcome === "AlreadyFinished" ? ("Canceled" as const) : outcome)),
        ),
    })),
    breaks: "a job is canceled when an operator says so",
  },
  {
    bug: "chunks that are written again are kept twice",
    promise: 89,
    stores: inJobs(({ appendChunks, countChunks }) => ({
      appendChunks: (items) =>
        Effect.flatMap(
          Effect.forEach(items, (item) =>
            Effect.map(countChunks(item.jobId), ({ count }) => ({ ...item, first: count })),
          ),
          appendChunks,
        ),
    })),
    breaks: "a chunk that was read never changes",
  },
  {
    bug: "a later attempt does not know how many chunks there are",
    promise: 89,
    stores: inJobs(() => ({ countChunks: () => Effect.succeed({ count: 0, bytes: 0 }) })),
    breaks: "the stream of a done job is complete",
  },
  {
    bug: "a stream ends with its first chunks",
    promise: 89,
    stores: inJobs(({ readChunks }) => ({
      readChunks: (items) =>
        Effect.map(readChunks(items), (pages) =>
          pages.map((page) => page && { ...page, isFinished: page.isFinished || page.chunks.length > 0 }),
        ),
    })),
    breaks: "a stream ends with its job",
  },
  {
    bug: "a reader that goes on after a break misses a chunk",
    promise: 89,
    stores: inJobs(({ readChunks }) => ({
      readChunks: (items) => readChunks(items.map((item) => (item.from > 0 ? { ...item, from: item.from + 1 } : item))),
    })),
    breaks: "a stream has no gaps",
  },
  {
    bug: "the second sender of a signal is told that its value counts",
    promise: 90,
    stores: inJobs(({ signalJobs }) => ({
      signalJobs: (items) =>
        Effect.map(signalJobs(items), (outcomes) =>
          outcomes.map((outcome) => (outcome === "Superseded" ? ("Repeated" as const) : outcome)),
        ),
    })),
    breaks: "the first signal counts",
  },
  {
    bug: "an attempt does not find the signals that came before it",
    promise: 90,
    stores: inJobs(() => ({ listSignals: () => Effect.succeed([]) })),
    breaks: "a signal that comes in time counts",
  },
]

/** Each fails this check of the conformance suite. */
const inConformance: ReadonlyArray<PlantedBug & { readonly section: string; readonly check: string }> = [
  {
    bug: "a job expires a millisecond after its queue limit",
    promise: 10,
    stores: inJobs(({ expireJobs }) => ({ expireJobs: (limit) => aheadBy(-1)(expireJobs(limit)) })),
    section: "JobStore.expireJobs",
    check: "fails a queued job at its queue limit, to the millisecond",
  },
  {
    bug: "a lease is taken over a millisecond early",
    promise: 16,
    stores: inJobs(({ claimJobs }) => ({ claimJobs: (request) => aheadBy(1)(claimJobs(request)) })),
    section: "JobStore.claimJobs",
    check: "no other worker gets a claimed job until its lease ends, to the millisecond",
  },
  {
    bug: "an unused upload is deleted a millisecond late",
    promise: 30,
    stores: inUploads(({ expireUploads }) => ({ expireUploads: (limit) => aheadBy(-1)(expireUploads(limit)) })),
    section: "UploadStore.expireUploads",
    check: "erases an upload that no job used in time, to the millisecond",
  },
  {
    bug: "a delayed job begins a millisecond early",
    promise: 69,
    stores: inJobs(({ claimJobs }) => ({ claimJobs: (request) => aheadBy(1)(claimJobs(request)) })),
    section: "JobStore.createJobs: delay",
    check: "a delayed job is queued and claimable from its time on, to the millisecond",
  },
  {
    bug: "an export ends after the present millisecond, in which charges may still follow",
    promise: 83,
    stores: inJobs(({ listCharges }) => ({
      listCharges: (page) => Effect.map(listCharges(page), (part) => ({ ...part, until: part.until + 1 })),
    })),
    section: "JobStore.listCharges",
    check: "a charge never gets a time before an `until` that was returned, not even in the same millisecond",
  },
  {
    bug: "a spend cap is checked, and the job created in a second step without it",
    promise: 85,
    stores: inJobs(({ createJobs }) => {
      let spending = 0
      return {
        createJobs: (items) =>
          Effect.gen(function* () {
            const isFirst = spending++ === 0
            yield* Effect.yieldNow
            return yield* createJobs(
              isFirst ? items : items.map((item) => ({ ...item, maxUsage: { input_characters: 0 } })),
            )
          }),
      }
    }),
    section: "JobStore.createJobs: spend cap",
    check: "concurrent jobs never pass the cap together",
  },
]

/** Enough for each bug; most show in the first ten runs. */
const runs = 300

describe("the simulation detects that", () => {
  it.each(inSimulation)("$bug (promise $promise)", async ({ breaks, stores }) => {
    const { broken } = await Effect.runPromise(simulateRuns({ layer: stores, seed: 1, runs }))
    expect(broken?.violation?.invariant).toMatch(breaks)
  })
})

describe("the conformance suite detects that", () => {
  it.each(inConformance)("$bug (promise $promise)", async ({ check: name, section, stores }) => {
    const check = storeSections.find((one) => one.name === section)?.checks.find((one) => one.name === name)
    if (check === undefined) throw new Error(`no check ${section}: ${name}`)
    const run = (layer: Layer.Layer<Stores>) =>
      Effect.runPromiseExit(check.run.pipe(Effect.provide(Layer.fresh(layer)), Effect.provide(TestClock.layer())))
    expect(Exit.isSuccess(await run(MemoryStores.layer))).toBe(true)
    expect(Exit.isFailure(await run(stores))).toBe(true)
  })
})
