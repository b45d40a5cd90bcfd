import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { FileGone } from "../domain/Errors.ts"
import { type BlobRange, BlobStore, JobStore, type StoredFile } from "../ports/index.ts"
import { openNamed } from "./openNamed.ts"

/** Returns a generated file by its id. The signed URL is the authorization; each call checks in the row that the file still exists. */
export const findFile = Effect.fnUntraced(function* (fileId: string) {
  if (!isId("fil", fileId)) return yield* Effect.fail(new FileGone())
  const store = yield* JobStore
  const file = yield* store.findFile(fileId)
  if (file === undefined) return yield* Effect.fail(new FileGone())
  return file satisfies StoredFile
})

/** Opens a file or a range of it. Fails with `FileGone` if its blob was deleted after its row was read. */
export const openFile = Effect.fnUntraced(function* (file: StoredFile, range?: BlobRange) {
  const blobs = yield* BlobStore
  return yield* openNamed(blobs, file, range).pipe(
    Effect.catchTag("BlobNotFound", (error) => Effect.flatMap(findFile(file.id), () => Effect.die(error))),
  )
})
