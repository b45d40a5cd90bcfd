import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { uploadBlobKey } from "@kiln/core/domain"
import { UploadStore } from "@kiln/core/ports"
import { advance, beginTransfer, create, createUpload, createUploaded } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { leaseDurationMs, newUpload, newUploadJob, uploadedFile, uploadId, usableForMs } from "../fixtures.ts"

export const findUploadOrphans: Section = {
  name: "UploadStore.findUploadOrphans",
  checks: [
    check(
      "returns all blobs except the file and blobs that the running transfer may still commit",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const blobs = [1, 2, 3].map((token) => ({
          blobKey: uploadBlobKey(uploadId(1), token),
          uploadId: uploadId(1),
          token,
        }))
        const orphans = Effect.map(store.findUploadOrphans(blobs), (found) =>
          found.map(({ blobKey, reason }) => `${blobKey.split("/")[2]} ${reason}`),
        )
        expect(yield* orphans).toEqual(["1 unknown", "2 unknown", "3 unknown"])
        yield* createUpload(newUpload(1))
        expect(yield* orphans, "no transfer yet").toEqual(["1 ahead", "2 ahead", "3 ahead"])
        yield* beginTransfer(1)
        expect(yield* orphans).toEqual(["2 ahead", "3 ahead"])
        yield* advance(leaseDurationMs)
        expect(yield* orphans, "a lapsed transfer may still commit").toEqual(["2 ahead", "3 ahead"])
        const token = yield* beginTransfer(1)
        expect(yield* orphans).toEqual(["1 spent", "3 ahead"])
        yield* store.releaseUpload({ uploadId: uploadId(1), token })
        expect(yield* orphans, "released: may not").toEqual(["1 spent", "2 spent", "3 ahead"])
        const last = yield* beginTransfer(1)
        yield* store.completeUpload({ uploadId: uploadId(1), token: last, file: uploadedFile(uploadId(1), last) })
        expect(yield* orphans).toEqual(["1 spent", "2 spent"])
        yield* advance(usableForMs)
        yield* store.expireUploads(10)
        expect(yield* orphans, "erased").toEqual(["1 spent", "2 spent", "3 spent"])
        expect(yield* store.findUploadOrphans([])).toEqual([])
      }),
    ),

    check(
      "a file that a job uses is not expired",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUploaded(1)
        yield* create(newUploadJob(1))
        yield* advance(10 * usableForMs)
        expect(
          yield* store.findUploadOrphans([{ blobKey: uploadBlobKey(uploadId(1), 1), uploadId: uploadId(1), token: 1 }]),
        ).toEqual([])
      }),
    ),
  ],
}
