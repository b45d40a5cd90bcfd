import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { idBody } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, create, createUpload } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, newUpload, uploadId } from "../fixtures.ts"

/** The store's lineage text: only a process that has read the current version can replace it. */
export const lineage: Section = {
  name: "JobStore.readLineage, writeLineage",
  checks: [
    check(
      "a text is replaced only where its version is the one that was read",
      Effect.gen(function* () {
        const store = yield* JobStore
        expect(yield* store.readLineage).toMatchObject({ version: 0, document: null })
        expect(yield* store.writeLineage(1, "too early")).toBe(false)
        expect(yield* store.writeLineage(0, "first")).toBe(true)
        expect(yield* store.writeLineage(0, "late")).toBe(false)
        expect(yield* store.readLineage).toMatchObject({ version: 1, document: "first" })
        expect(yield* store.writeLineage(1, "second")).toBe(true)
        expect(yield* store.writeLineage(1, "late")).toBe(false)
        expect(yield* store.readLineage).toMatchObject({ version: 2, document: "second" })
      }),
    ),

    check(
      "of several concurrent writers, one succeeds",
      Effect.gen(function* () {
        const store = yield* JobStore
        for (const version of [0, 1]) {
          const written = yield* Effect.all(
            Array.from({ length: 5 }, (_, n) => store.writeLineage(version, `${version} ${n}`)),
            { concurrency: "unbounded" },
          )
          expect(written.filter(Boolean)).toEqual([true])
        }
        expect((yield* store.readLineage).version).toBe(2)
      }),
    ),

    check(
      "is returned with store time and the newest id of jobs and uploads",
      Effect.gen(function* () {
        const store = yield* JobStore
        const before = yield* store.readLineage
        expect(before.newestId).toBe(null)
        yield* advance(5)
        expect((yield* store.readLineage).now).toBe(before.now + 5)
        yield* create(newJob(3), newJob(2))
        expect((yield* store.readLineage).newestId).toBe(idBody(jobId(3)))
        yield* createUpload(newUpload(4))
        expect((yield* store.readLineage).newestId).toBe(idBody(uploadId(4)))
        yield* create(newJob(5))
        expect((yield* store.readLineage).newestId).toBe(idBody(jobId(5)))
      }),
    ),
  ],
}
