import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import {
  acceptedMediaTypes,
  type BlobTooLarge,
  isId,
  type Upload,
  uploadBlobKey,
  type UploadId,
} from "../domain/index.ts"
import type { TransferRefusal, UploadCap } from "../domain/Upload.ts"
import { acceptsContentType, containerMatches, FirstBytes } from "../domain/AudioFormat.ts"
import {
  AudioFormatMismatch,
  EmptyFile,
  FileTooLarge,
  UnsupportedContentType,
  UploadAlreadyCompleted,
  UploadExpired,
  UploadInProgress,
  UploadNotFound,
  UploadsFull,
  UploadTimeout,
} from "../domain/Errors.ts"
import { BlobStore, JobStore, type TransferRef, UploadStore } from "../ports/index.ts"
import { announceBlobs } from "./blobs.ts"
import { storageFull } from "./createJob.ts"
import { EngineConfig } from "./EngineConfig.ts"
import type { EngineSettings } from "./EngineSettings.ts"

/** An incoming transfer. */
export interface IncomingFile<E> {
  readonly uploadId: UploadId
  readonly contentType: string | undefined
  /** In bytes; `undefined` if the sender did not declare it. */
  readonly contentLength: number | undefined
  /** Whether the upload was announced in the same request, so that its window does not apply. Default `false`. */
  readonly isImmediate?: boolean
  /** Read only once the transfer may start. */
  readonly content: Stream.Stream<Uint8Array, E>
}

const refused: Record<
  TransferRefusal | "uploads_full",
  (cap: UploadCap) => UploadAlreadyCompleted | UploadInProgress | UploadExpired | UploadsFull
> = {
  already_completed: () => new UploadAlreadyCompleted(),
  in_progress: () => new UploadInProgress(),
  expired: () => new UploadExpired(),
  uploads_full: (cap) => new UploadsFull(cap),
}

/**
 * Receives the file of an announced upload. Only one transfer runs at a time: it holds a claim with a lease and a fencing token
 * that is part of the blob's key, so that another transfer can neither run at the same time nor overwrite the blob. A transfer
 * that fails leaves nothing readable and releases the claim.
 *
 * The order of checks is: expiry, completed, running, no transfers left, content type, length, bytes of waiting uploads, bytes that the
 * project keeps. Then the transfer starts and counts, also if it fails. The store checks leases in its own time; the expiry of the URL is checked with
 * the clock of this process, like its signature.
 */
export const receiveUpload = Effect.fnUntraced(function* <E>(incoming: IncomingFile<E>) {
  const config = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  const upload = isId("upl", incoming.uploadId) ? yield* uploads.findUpload(incoming.uploadId) : undefined
  if (upload === undefined) return yield* Effect.fail(new UploadNotFound())
  if (incoming.isImmediate !== true && (yield* Clock.currentTimeMillis) >= upload.expiresAt)
    return yield* Effect.fail(new UploadExpired())
  const unacceptable = headersRefused(upload, incoming, config)
  if (unacceptable !== undefined) {
    yield* nothingElseInTheWay(upload)
    return yield* Effect.fail(unacceptable)
  }
  return yield* Effect.acquireUseRelease(
    beginTransfer(upload, config.maxTransfers, incoming.contentLength),
    ({ token }) => transfer(upload, token, incoming.content),
    ({ token }, exit) => (Exit.isSuccess(exit) ? Effect.void : abandonTransfer({ uploadId: upload.id, token })),
  )
})

const headersRefused = (
  upload: Upload,
  { contentLength, contentType }: Pick<IncomingFile<never>, "contentType" | "contentLength">,
  { maxBytes }: EngineSettings["upload"],
): UnsupportedContentType | FileTooLarge | undefined =>
  !acceptsContentType(upload.format, contentType)
    ? new UnsupportedContentType({ expected: acceptedMediaTypes[upload.format] })
    : (contentLength ?? 0) > maxBytes
      ? new FileTooLarge({ maxBytes })
      : undefined

/** Does not start a transfer that its headers rule out: claims one with no transfer allowed, which only returns any other refusal. */
const nothingElseInTheWay = Effect.fnUntraced(function* (upload: Upload) {
  const { maxTransfers } = (yield* EngineConfig).upload
  yield* Effect.catchTag(beginTransfer(upload, 0), "UploadExpired", (error) =>
    upload.erased || upload.transfers >= maxTransfers ? Effect.fail(error) : Effect.void,
  )
})

const beginTransfer = Effect.fnUntraced(function* (
  { id: uploadId, mode, projectId }: Upload,
  maxTransfers: number,
  contentLength?: number,
) {
  const { storageCap, upload, uploadCap } = yield* EngineConfig
  const uploads = yield* UploadStore
  const outcome = yield* uploads.claimUpload({
    uploadId,
    leaseDurationMs: upload.leaseDurationMs,
    maxTransfers,
    bytes: contentLength,
    capBytes: uploadCap.bytes,
    ...(storageCap[mode] > 0 && { storage: { capBytes: storageCap[mode], bytes: contentLength ?? upload.maxBytes } }),
  })
  switch (outcome._tag) {
    case "Claimed":
      return outcome
    case "Refused":
      return yield* Effect.fail(
        outcome.reason === "storage_full"
          ? storageFull(storageCap[mode], yield* uploads.keptBytes(projectId, mode))
          : refused[outcome.reason](uploadCap),
      )
    case "NotFound":
      return yield* Effect.fail(new UploadNotFound())
  }
})

const transfer = Effect.fnUntraced(function* <E>(upload: Upload, token: number, content: Stream.Stream<Uint8Array, E>) {
  const { upload: config, uploadCap } = yield* EngineConfig
  const uploads = yield* UploadStore
  const blobs = yield* BlobStore
  const blobKey = uploadBlobKey(upload.id, token)
  yield* announceBlobs(yield* JobStore)
  const received = content.pipe(
    failStalled(config.stallLimitMs),
    checkContainer(upload),
    (checked) => blobs.put(blobKey, checked, { maxBytes: config.maxBytes }),
    Effect.timeoutOrElse({ duration: config.transferLimitMs, orElse: () => Effect.fail(new UploadTimeout()) }),
    Effect.catchIf(isTooLarge, (error) => Effect.fail(new FileTooLarge({ maxBytes: error.maxBytes }))),
  )
  // The claim is extended only while bytes arrive: it ends when the row is written.
  const info = yield* Effect.raceFirst(received, keepClaim({ uploadId: upload.id, token }))
  const outcome = yield* Effect.retry(
    uploads.completeUpload({
      uploadId: upload.id,
      token,
      file: { blobKey, bytes: info.bytes, sha256: info.sha256 },
      capBytes: uploadCap.bytes,
    }),
    { schedule: Schedule.exponential("50 millis"), times: 8 },
  )
  // The length was unknown before, or other uploads have arrived since.
  if (outcome === "UploadsFull") return yield* Effect.fail(new UploadsFull(uploadCap))
  // Another transfer took over after this one's lease ended, and is running now.
  if (outcome === "LeaseLost") return yield* Effect.fail(new UploadInProgress())
})

const isTooLarge = (error: unknown): error is BlobTooLarge =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "BlobTooLarge"

/** Fails a stream whose next chunk does not arrive in time. (`Stream.timeoutOrElse` of effect 4.1.0 hangs if a stream stalls after its first chunk.) */
const failStalled =
  (stallLimitMs: number) =>
  <E>(content: Stream.Stream<Uint8Array, E>) =>
    Stream.transformPull(content, (pull) =>
      Effect.succeed(
        Effect.timeoutOrElse(pull, { duration: stallLimitMs, orElse: () => Effect.fail(new UploadTimeout()) }),
      ),
    )

/** Passes a file through and checks its first bytes: it must not be empty and must have the announced container format. */
const checkContainer =
  (upload: Upload) =>
  <E>(content: Stream.Stream<Uint8Array, E>) =>
    Stream.suspend(() => {
      const first = new FirstBytes(upload.format)
      let checked = false
      const check = (): Effect.Effect<void, EmptyFile | AudioFormatMismatch> => {
        checked = true
        if (first.isEmpty) return Effect.fail(new EmptyFile())
        const detected = first.container()
        if (containerMatches(upload.format, detected)) return Effect.void
        return Effect.fail(
          new AudioFormatMismatch({
            declared: upload.format,
            detected: detected ?? null,
            isText: looksLikeText(first.bytes),
          }),
        )
      }
      // What arrived together stays together, because each batch is written in one call.
      const look = (pieces: NonEmptyReadonlyArray<Uint8Array>) =>
        checked || !pieces.some((piece) => first.add(piece)) ? Effect.succeed(pieces) : Effect.as(check(), pieces)
      const shortFile = Stream.suspend(() => (checked ? Stream.empty : Stream.drain(Stream.fromEffect(check()))))
      return Stream.concat(Stream.mapArrayEffect(content, look), shortFile)
    })

/** Extends the claim until the transfer ends. Losing it ends the transfer. */
const keepClaim = Effect.fnUntraced(function* (claim: TransferRef) {
  const { leaseDurationMs } = (yield* EngineConfig).upload
  const uploads = yield* UploadStore
  while (true) {
    yield* Effect.sleep(leaseDurationMs / 3)
    // A short outage of the store does not lose the claim: the lease decides.
    const outcome = yield* uploads
      .extendUpload({ ...claim, leaseDurationMs })
      .pipe(Effect.catchTag("StoreUnavailable", () => Effect.succeed("Written" as const)))
    if (outcome === "LeaseLost") return yield* Effect.fail(new UploadInProgress())
  }
})

/**
 * Releases the claim and removes the blob. The release is fenced: it is refused if a completion without a response committed the
 * file after all. In that case, and if the store is unavailable, the blob is left to the sweep, which checks the row.
 */
const abandonTransfer = (claim: TransferRef) =>
  Effect.gen(function* () {
    const uploads = yield* UploadStore
    const blobs = yield* BlobStore
    const outcome = yield* uploads.releaseUpload(claim)
    if (outcome === "Written") yield* blobs.remove(uploadBlobKey(claim.uploadId, claim.token))
  }).pipe(Effect.ignore)

/** Returns whether these first bytes are text in UTF-8, whose last character may be cut. */
const looksLikeText = (firstBytes: Uint8Array): boolean => {
  try {
    return /^[^\p{Cc}]*$/u.test(
      new TextDecoder("utf-8", { fatal: true }).decode(firstBytes, { stream: true }).replace(/[\t\n\r]/g, ""),
    )
  } catch {
    return false
  }
}
