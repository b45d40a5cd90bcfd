import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { FileGone } from "../domain/Errors.ts"
import { type BlobRange, BlobStore, JobStore, type StoredFile } from "../ports/index.ts"
import { openNamed } from "./openNamed.ts"

/** A generated file by its id: the signed URL is the authorization, the row decides each time whether it is still there. */
export const findFile = Effect.fnUntraced(function* (fileId: string) {
  if (!isId("fil", fileId)) return yield* Effect.fail(new FileGone())
  const store = yield* JobStore
  const file = yield* store.findFile(fileId)
  if (file === undefined) return yield* Effect.fail(new FileGone())
  return file satisfies StoredFile
})

/** Its bytes, or a range of them: those its row promises, or none. A blob that vanished between row and read was deleted in between. */
export const openFile = Effect.fnUntraced(function* (file: StoredFile, range?: BlobRange) {
  const blobs = yield* BlobStore
  return yield* openNamed(blobs, file, range).pipe(
    Effect.catchTag("BlobNotFound", (error) => Effect.flatMap(findFile(file.id), () => Effect.die(error))),
  )
})
