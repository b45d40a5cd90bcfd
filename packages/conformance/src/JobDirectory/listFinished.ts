import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobDirectory } from "@kiln/core/ports"
import { advance, complete, create, createAndClaim, createFailed } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob } from "../fixtures.ts"

const listing = (withinMs: number, limit = 10) =>
  Effect.flatMap(JobDirectory, (directory) => directory.listFinished({ withinMs, limit }))

/** Finished jobs by the time of their end. */
export const listFinished: Section = {
  name: "JobDirectory.listFinished",
  checks: [
    check(
      "the newest ends first, of all kinds, with how long each job waited and ran",
      Effect.gen(function* () {
        expect(yield* listing(1_000)).toEqual([])
        const first = yield* createAndClaim(newJob(1))
        yield* advance(40)
        yield* complete(first)
        yield* advance(10)
        yield* createFailed(newJob(2))
        yield* advance(10)
        yield* create(newJob(3))
        const found = yield* listing(1_000)
        expect(found.map(({ id, status }) => [id, status])).toEqual([
          [jobId(2), "failed"],
          [jobId(1), "done"],
        ])
        expect(found[1]).toMatchObject({
          kind: "speech_synthesis",
          mode: "sandbox",
          errorCode: null,
          ranMs: 40,
          waitedMs: 0,
        })
        expect(found[0]?.errorCode).not.toBeNull()
        expect((found[0]?.finishedAt ?? 0) - (found[1]?.finishedAt ?? 0)).toBe(10)
      }),
    ),

    check(
      "only those within the time, and at most the limit",
      Effect.gen(function* () {
        for (const n of [1, 2, 3]) {
          yield* createFailed(newJob(n))
          yield* advance(100)
        }
        expect((yield* listing(250)).map(({ id }) => id)).toEqual([jobId(3), jobId(2)])
        expect((yield* listing(1_000, 1)).map(({ id }) => id)).toEqual([jobId(3)])
        expect(yield* listing(100)).toEqual([])
      }),
    ),
  ],
}
