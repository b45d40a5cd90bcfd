import { expect, test } from "@effect/vitest"
import { type Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import fc from "fast-check"
import { isFinished } from "@kiln/core/domain"
import { JobStore, KeyDirectory, Switchboard, UploadStore } from "@kiln/core/ports"
import { MemoryStores } from "../memory/MemoryStores.ts"
import type { Stores } from "./Check.ts"
import { jobOperations } from "./comparison/jobOperations.ts"
import { emptyHistory, type History, type Operation, type Seen, unordered } from "./comparison/Operation.ts"
import { otherOperations } from "./comparison/otherOperations.ts"
import { ownerOf } from "./fixtures.ts"

export interface Comparison {
  /** Appears in the name of the test. */
  readonly name: string
  /** Each build opens an empty store, as for `storeConformance`. */
  readonly layer: Layer.Layer<Stores, unknown>
  /** Random histories to perform. */
  readonly runs: number
  /** Repeats a reported failure. */
  readonly seed?: number | undefined
  /** `false` reports the first history that differs instead of looking for the smallest. */
  readonly shrink?: boolean | undefined
}

/** Everything that can be read from a store about what a history touched. */
const observe = Effect.fnUntraced(function* (history: History) {
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  const { liveKinds, ...rest } = yield* board.readBoard
  return {
    jobs: yield* jobs.findJobs(history.jobs),
    uploads: yield* Effect.forEach(history.uploads, ({ uploadId }) => uploads.findUpload(uploadId)),
    purges: unordered(yield* jobs.listPurges(10_000), (purge) => purge.blobPrefix),
    board: { ...rest, liveKinds: liveKinds.toSorted() },
    prices: yield* board.listPrices,
    projects: unordered(yield* keys.listProjects, (project) => project.id),
    keys: unordered(yield* keys.listKeys, (key) => key.id),
  }
})

/** What later operations may pick from. */
const seenFrom = ({ jobs, uploads, projects }: Effect.Success<ReturnType<typeof observe>>): Seen => {
  const known = jobs.filter((job) => job !== undefined)
  const announced = uploads.filter((upload) => upload !== undefined)
  return {
    held: known.filter((job) => job.held).map(({ id, token, mode }) => ({ jobId: id, token, live: mode === "live" })),
    finished: known.filter(isFinished).map((job) => ({ jobId: job.id, principal: ownerOf(job) })),
    transfers: announced
      .filter((upload) => upload.claimedUntil !== null)
      .map(({ id, token }) => ({ uploadId: id, token })),
    unused: announced.filter((upload) => upload.jobId === null).map((upload) => ({ ...upload, uploadId: upload.id })),
    files: known.flatMap((job) => job.files.map((file) => ({ fileId: file.id, blobKey: file.blobKey, jobId: job.id }))),
    projects: projects.map((project) => project.id),
    instants: [
      ...known.flatMap((job) => [job.claimableAt, job.deadlineAt]),
      ...announced.flatMap((upload) => [upload.claimedUntil, upload.expiresAt, upload.usableUntil]),
    ].filter((instant) => instant !== null),
  }
}

const performHistory = Effect.fnUntraced(function* (operations: ReadonlyArray<Operation>, layer: Comparison["layer"]) {
  const reference: Context.Context<Stores> = yield* Layer.build(Layer.fresh(MemoryStores.layer))
  const other: Context.Context<Stores> = yield* Layer.build(Layer.fresh(layer))
  const history = emptyHistory()
  for (const operation of operations) {
    yield* operation.perform(history, reference, other)
    const expected = yield* Effect.provideContext(observe(history), reference)
    expect(yield* Effect.provideContext(observe(history), other)).toEqual(expected)
    history.seen = seenFrom(expected)
  }
})

/**
 * Performs the same random histories, in virtual time, on the memory store and on another, and
 * compares every answer and everything readable after each step. Returns the smallest history found
 * on which they differ, with seed and path to repeat it; `undefined` when there is none.
 */
export const findDifference = async ({
  layer,
  runs,
  seed,
  shrink = true,
}: Omit<Comparison, "name">): Promise<string | undefined> => {
  const histories = fc.array(fc.oneof(...jobOperations, ...otherOperations), {
    minLength: 1,
    maxLength: 150,
    size: "max",
  })
  const property = fc.asyncProperty(histories, (operations) =>
    Effect.runPromise(performHistory(operations, layer).pipe(Effect.scoped, Effect.provide(TestClock.layer()))),
  )
  const details = await fc.check(property, {
    numRuns: runs,
    endOnFailure: !shrink,
    ...(seed === undefined ? {} : { seed }),
  })
  return details.failed ? fc.asyncDefaultReportMessage(details) : undefined
}

/** Registers with vitest the test that a store cannot be told from the memory store. */
export const compareWithMemory = ({ name, ...comparison }: Comparison): void =>
  test(
    `${name} answers ${comparison.runs} random histories as the memory store does`,
    async () => {
      const difference = await findDifference(comparison)
      expect(difference, difference).toBe(undefined)
    },
    // A run is some 75 steps, each read back in full.
    10_000 + comparison.runs * 500,
  )
