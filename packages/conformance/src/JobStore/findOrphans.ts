import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { jobBlobPrefix } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, claimOne, complete, createAndClaim, createFailed } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, outputFile, ownerOf } from "../fixtures.ts"

/** Garbage collection never removes blobs that a live attempt may still commit, and eventually removes all others. */
export const findOrphans: Section = {
  name: "JobStore.findOrphans",
  checks: [
    check(
      "of an unfinished job, those of earlier tokens are spent and those of later ones ahead",
      Effect.gen(function* () {
        const store = yield* JobStore
        const blob = (token: number) => ({
          blobKey: `${jobBlobPrefix(jobId(1))}/${token}/audio`,
          jobId: jobId(1),
          token,
        })
        const orphans = Effect.map(store.findOrphans([1, 2, 3].map(blob)), (found) =>
          found.map(({ blobKey, reason }) => `${blobKey.split("/")[2]} ${reason}`),
        )
        yield* createAndClaim(newJob(1), { leaseDurationMs: 10 })
        expect(yield* orphans).toEqual(["2 ahead", "3 ahead"])
        yield* advance(10)
        expect(yield* orphans, "a lapsed lease may still commit").toEqual(["2 ahead", "3 ahead"])
        const { token } = yield* claimOne()
        expect(yield* orphans).toEqual(["1 spent", "3 ahead"])
        yield* store.releaseJobs([{ jobId: jobId(1), token }])
        expect(yield* orphans, "a released claim can commit no more").toEqual(["1 spent", "2 spent"])
      }),
    ),

    check(
      "of a finished job, all blobs that no file names",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        const file = outputFile(claimed, 1)
        const done = yield* complete(claimed, { files: [file] })
        const blob = (blobKey: string, token: number) => ({ blobKey, jobId: done.id, token })
        const leftover = `${jobBlobPrefix(done.id)}/1/leftover`
        const [later, newer] = [`${jobBlobPrefix(done.id)}/2/audio`, `${jobBlobPrefix(done.id)}/9/audio`]
        const blobs = [blob(file.blobKey, 1), blob(leftover, 1), blob(later, done.token), blob(newer, 9)]
        const others = [
          { blobKey: leftover, reason: "spent" },
          { blobKey: later, reason: "spent" },
          { blobKey: newer, reason: "ahead" },
        ]
        expect(yield* store.findOrphans(blobs)).toEqual(others)
        yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        expect(yield* store.findOrphans(blobs)).toEqual([{ blobKey: file.blobKey, reason: "spent" }, ...others])
      }),
    ),

    check(
      "all blobs of a failed job are spent, all of a job without a record are unknown",
      Effect.gen(function* () {
        const store = yield* JobStore
        const failed = yield* createFailed(newJob(1))
        const blobs = [
          { blobKey: `${jobBlobPrefix(failed.id)}/1/audio`, jobId: failed.id, token: 1 },
          { blobKey: `${jobBlobPrefix(jobId(9))}/1/audio`, jobId: jobId(9), token: 1 },
        ]
        expect(yield* store.findOrphans(blobs)).toEqual([
          { blobKey: `${jobBlobPrefix(failed.id)}/1/audio`, reason: "spent" },
          { blobKey: `${jobBlobPrefix(jobId(9))}/1/audio`, reason: "unknown" },
        ])
        expect(yield* store.findOrphans([])).toEqual([])
      }),
    ),
  ],
}
