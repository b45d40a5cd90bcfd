import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isBytes, isStorableText, jobBlobKey, type OutputFile } from "../../domain/index.ts"
import { unknownName, valueOf } from "../../domain/givenValues.ts"
import { announceBlobs, filesInProgress } from "../../engine/blobs.ts"
import { type AttemptError, AttemptFailed, type AttemptFile } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { BlobStore, IdGenerator, JobStore } from "../../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import { retrying } from "../repeating.ts"

/** Maximum bytes of a file whose kind states no limit. No valid answer to a built-in kind is larger. */
const defaultMaxBytes = 64 * 1_024 * 1_024

/** About 15 seconds. The attempt does not wait for a blob store that is unavailable for longer. */
const putRetries = 20

interface Services {
  readonly blobs: BlobStore["Service"]
  readonly ids: IdGenerator["Service"]
  readonly store: JobStore["Service"]
}

/** Writes one file of an attempt. It is durable when the write succeeds; if it fails, nothing of it can be read. */
export const writeFile = Effect.fnUntraced(function* (
  { blobs, ids, store }: Services,
  { claim: { job, token }, kind, written }: Attempt,
  name: string,
  { data, mediaType }: AttemptFile,
) {
  if (!kind.files.includes(name))
    return yield* Effect.die(
      new KindBug(unknownName(`file "${name}" of ${kind.name}: declare it in files`, name, kind.files)),
    )
  const blobKey = jobBlobKey(job.id, token, name)
  if (!isStorableText(mediaType))
    return yield* Effect.die(
      new KindBug(
        `writeFile("${name}") expects { data, mediaType }, and mediaType must be text without U+0000 or unpaired surrogates`,
      ),
    )
  const maxBytes = valueOf(kind.fileLimits, name) ?? defaultMaxBytes
  // A stream cannot be read again, so a write is repeated only if it did not begin.
  let begun = false
  const content: Stream.Stream<Uint8Array, AttemptError> = isBytes(data)
    ? Stream.succeed(data)
    : Stream.suspend(() => {
        begun = true
        return piecesOf(name, data)
      })
  // What the file contains may have been paid for: an outage of the store must not make a retry pay for it again.
  yield* Effect.retry(announceBlobs(store), retrying)
  written.push(blobKey)
  const info = yield* Effect.mapError(
    Effect.retry(filesInProgress(blobs).writing(blobs.put(blobKey, content, { maxBytes })), {
      schedule: retrying,
      while: (error) => error._tag === "BlobUnavailable" && !begun,
      times: putRetries,
    }),
    (error) => (error._tag === "BlobTooLarge" ? tooLarge(name, maxBytes) : error),
  )
  return { id: ids.next("fil"), name, blobKey, mediaType, ...info } satisfies OutputFile
})

/** Returns the data as a stream of bytes. Checks it at run time, because JavaScript code may pass anything. */
const piecesOf = (name: string, data: unknown): Stream.Stream<Uint8Array, AttemptError> => {
  const bug = new KindBug(`the data of file "${name}" must be bytes, or a stream of bytes`)
  if (!Stream.isStream(data)) return Stream.die(bug)
  return Stream.map(data as Stream.Stream<unknown, AttemptError>, (piece) => {
    if (!isBytes(piece)) throw bug
    return piece
  })
}

const tooLarge = (name: string, maxBytes: number) =>
  new AttemptFailed({
    errorCode: "result_invalid",
    retry: true,
    detail: `the file "${name}" is larger than ${maxBytes} bytes; files.${name}.maxBytes of its kind sets the limit`,
  })
