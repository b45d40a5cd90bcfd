import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { UploadStore } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { newUpload, transferWindowMs, uploadId, usableForMs } from "../fixtures.ts"

export const createUploads: Section = {
  name: "UploadStore.createUploads, findUpload",
  checks: [
    check(
      "announces uploads at store time, in order",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* advance(1_000)
        const outcomes = yield* store.createUploads([
          newUpload(2, { format: "m4a", declaredSeconds: 0.25, mode: "live" }),
          newUpload(1),
        ])
        const created = outcomes.filter((outcome) => outcome !== "UploadsFull")
        expect(created.map(({ id }) => id)).toEqual([uploadId(2), uploadId(1)])
        const {
          transferWindowMs: _,
          usableForMs: __,
          ...announced
        } = newUpload(2, { format: "m4a", declaredSeconds: 0.25, mode: "live" })
        expect(created[0]).toEqual({
          ...announced,
          createdAt: 1_000,
          expiresAt: 1_000 + transferWindowMs,
          usableUntil: 1_000 + usableForMs,
          token: 0,
          claimedUntil: null,
          transfers: 0,
          file: null,
          jobId: null,
          erased: false,
        })
        for (const upload of created) expect(yield* store.findUpload(upload.id)).toEqual(upload)
        expect(yield* store.findUpload(uploadId(3))).toBe(undefined)
        expect(yield* store.createUploads([])).toEqual([])
      }),
    ),
  ],
}
