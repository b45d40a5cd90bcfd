import { Clock, Effect, Exit, Schedule, Stream } from "effect"
import {
  acceptedMediaTypes,
  acceptsContentType,
  type BlobTooLarge,
  containerMatches,
  sniffContainer,
  SNIFF_BYTES,
  transferRefusal,
  type TransferRefusal,
  type Upload,
  uploadBlobKey,
  type UploadId,
} from "../domain/index.ts"
import { BlobStore, type TransferRef, UploadStore } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"
import {
  AudioFormatMismatch,
  EmptyFile,
  FileTooLarge,
  UnsupportedContentType,
  UploadAlreadyCompleted,
  UploadExpired,
  UploadInProgress,
  UploadNotFound,
  UploadTimeout,
} from "./errors.ts"

/** A transfer as it arrives. */
export interface IncomingFile<E> {
  readonly uploadId: UploadId
  readonly contentType: string | undefined
  /** Bytes; `undefined` when the sender does not say. */
  readonly contentLength: number | undefined
  /** Pulled only once the transfer was allowed to begin. */
  readonly content: Stream.Stream<Uint8Array, E>
}

const refused: Record<TransferRefusal, () => UploadAlreadyCompleted | UploadInProgress | UploadExpired> = {
  already_completed: () => new UploadAlreadyCompleted(),
  in_progress: () => new UploadInProgress(),
  expired: () => new UploadExpired(),
}

/**
 * Receives the file of an announced upload. One transfer wins: it holds a claim with a lease and a
 * fencing token that is part of the blob's key, so another can neither run beside it nor overwrite
 * it. Whatever does not end well leaves nothing readable and gives the claim back.
 *
 * Checked in this order: expiry, completed, running, used up, content type, length; then the
 * transfer begins, and is counted, whatever comes of it.
 */
export const receiveUpload = Effect.fnUntraced(function* <E>(incoming: IncomingFile<E>) {
  const config = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  const upload = yield* uploads.findUpload(incoming.uploadId)
  if (upload === undefined) return yield* new UploadNotFound()
  const now = yield* Clock.currentTimeMillis
  if (now >= upload.expiresAt) return yield* new UploadExpired()
  const refusal = transferRefusal(upload, now, config.maxTransfers)
  if (refusal !== undefined) return yield* refused[refusal]()
  if (!acceptsContentType(upload.format, incoming.contentType))
    return yield* new UnsupportedContentType({ expected: acceptedMediaTypes[upload.format] })
  if ((incoming.contentLength ?? 0) > config.maxBytes) return yield* new FileTooLarge({ maxBytes: config.maxBytes })

  return yield* Effect.acquireUseRelease(
    beginTransfer(incoming.uploadId),
    ({ token }) => transfer(upload, token, incoming.content),
    ({ token }, exit) => (Exit.isSuccess(exit) ? Effect.void : abandonTransfer({ uploadId: upload.id, token })),
  )
})

const beginTransfer = Effect.fnUntraced(function* (uploadId: UploadId) {
  const config = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  const outcome = yield* uploads.claimUpload({
    uploadId,
    leaseDurationMs: config.leaseDurationMs,
    maxTransfers: config.maxTransfers,
  })
  switch (outcome._tag) {
    case "Claimed":
      return outcome
    case "Refused":
      return yield* refused[outcome.reason]()
    case "NotFound":
      return yield* new UploadNotFound()
  }
})

const transfer = Effect.fnUntraced(function* <E>(upload: Upload, token: number, content: Stream.Stream<Uint8Array, E>) {
  const config = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  const blobs = yield* BlobStore
  const blobKey = uploadBlobKey(upload.id, token)
  const received = content.pipe(
    failStalled(config.stallLimitMs),
    checkContainer(upload),
    (checked) => blobs.put(blobKey, checked, { maxBytes: config.maxBytes }),
    Effect.timeoutOrElse({ duration: config.transferLimitMs, orElse: () => Effect.fail(new UploadTimeout()) }),
    Effect.catchIf(isTooLarge, (error) => Effect.fail(new FileTooLarge({ maxBytes: error.maxBytes }))),
  )
  // The claim is kept only while bytes flow: once the row is written, losing it means having won.
  const info = yield* Effect.raceFirst(received, keepClaim({ uploadId: upload.id, token }))
  const outcome = yield* Effect.retry(
    uploads.completeUpload({
      uploadId: upload.id,
      token,
      file: { blobKey, bytes: info.bytes, sha256: info.sha256 },
    }),
    { schedule: Schedule.exponential("50 millis"), times: 8 },
  )
  if (outcome === "Written") return
  // A first try whose answer was lost may have been the one that counted.
  const now = yield* uploads.findUpload(upload.id)
  // Otherwise another transfer took over after this one's lease ended: that one is running now.
  if (now?.file?.blobKey !== blobKey) return yield* new UploadInProgress()
})

const isTooLarge = (error: unknown): error is BlobTooLarge =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "BlobTooLarge"

/** Ends a stream that does not bring its next piece in time. (`Stream.timeoutOrElse` of effect 4.1.0 hangs when the stall comes after a first piece.) */
const failStalled =
  (stallLimitMs: number) =>
  <E>(content: Stream.Stream<Uint8Array, E>) =>
    Stream.transformPull(content, (pull) =>
      Effect.succeed(
        Effect.timeoutOrElse(pull, { duration: stallLimitMs, orElse: () => Effect.fail(new UploadTimeout()) }),
      ),
    )

/** Passes a file on while looking at its first bytes: it must not be empty and must be of the announced container. */
const checkContainer =
  (upload: Upload) =>
  <E>(content: Stream.Stream<Uint8Array, E>) =>
    Stream.suspend(() => {
      const head = new Uint8Array(SNIFF_BYTES)
      let seen = 0
      let checked = false
      const check = (): Effect.Effect<void, EmptyFile | AudioFormatMismatch> => {
        checked = true
        if (seen === 0) return Effect.fail(new EmptyFile())
        const detected = sniffContainer(head.subarray(0, seen))
        return containerMatches(upload.format, detected)
          ? Effect.void
          : Effect.fail(new AudioFormatMismatch({ declared: upload.format, detected: detected ?? null }))
      }
      const look = (chunk: Uint8Array) =>
        Effect.suspend(() => {
          if (checked) return Effect.succeed(chunk)
          const part = chunk.subarray(0, SNIFF_BYTES - seen)
          head.set(part, seen)
          seen += part.length
          return seen < SNIFF_BYTES ? Effect.succeed(chunk) : Effect.as(check(), chunk)
        })
      const shortFile = Stream.suspend(() => (checked ? Stream.empty : Stream.drain(Stream.fromEffect(check()))))
      return Stream.concat(Stream.mapEffect(content, look), shortFile)
    })

/** Extends the claim until the transfer ends. Losing it ends the transfer. */
const keepClaim = Effect.fnUntraced(function* (claim: TransferRef) {
  const { leaseDurationMs } = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  while (true) {
    yield* Effect.sleep(leaseDurationMs / 3)
    // A store that is out of reach for a moment does not lose the claim: the lease decides.
    const outcome = yield* uploads
      .extendUpload({ ...claim, leaseDurationMs })
      .pipe(Effect.catchTag("StoreUnavailable", () => Effect.succeed("Written" as const)))
    if (outcome === "LeaseLost") return yield* new UploadInProgress()
  }
})

/**
 * Gives the claim back and removes what was written. The release is fenced, and says whether the
 * claim was still ours: if it was not, or the store cannot say, the file may have been committed
 * (a lost answer), and the blob is left to the sweep, which asks the row.
 */
const abandonTransfer = (claim: TransferRef) =>
  Effect.gen(function* () {
    const uploads = yield* UploadStore
    const blobs = yield* BlobStore
    const outcome = yield* uploads.releaseUpload(claim)
    if (outcome === "Written") yield* blobs.remove(uploadBlobKey(claim.uploadId, claim.token))
  }).pipe(Effect.ignore)
