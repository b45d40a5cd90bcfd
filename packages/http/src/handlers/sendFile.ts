import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { StoredFile } from "@kiln/core/ports"
import { type Exchange, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { type ByteRange, formatContentRange, parseByteRange } from "../wire/ByteRange.ts"
import { verifySignedUrl } from "../wire/SignedUrls.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { refusalFor } from "./refusalFor.ts"

/** Sends a generated file, or a range of it. GET and HEAD. */
export const sendFile = (context: HandlerContext): Handler =>
  Effect.fnUntraced(function* (exchange, id): Effect.fn.Return<Reply, Refusal> {
    const secondsLeft = yield* checkSignature(context, exchange)
    const file = yield* Effect.mapError(context.engine.findFile(id), (error) => refusalFor(error))
    // A link is for GET only.
    if (context.linkBlob !== undefined && exchange.method === "GET" && secondsLeft >= 1)
      return yield* redirect(context, context.linkBlob, file, Math.floor(secondsLeft))
    const range = rangeOf(exchange, file)
    const contentRange = formatContentRange(range, file.bytes)
    if (range.kind === "unsatisfiable")
      return yield* new Refusal({
        code: "range_not_satisfiable",
        headers: { "accept-ranges": "bytes", ...(contentRange !== undefined && { "content-range": contentRange }) },
      })
    const length = range.kind === "partial" ? range.endInclusive - range.start + 1 : file.bytes
    const headers = {
      ...fileHeaders(file),
      "content-length": String(length),
      ...(contentRange !== undefined && { "content-range": contentRange }),
    }
    const status = range.kind === "partial" ? 206 : 200
    if (exchange.method === "HEAD") return { status, headers, body: undefined }
    const wanted = range.kind === "partial" ? { offset: range.start, length } : undefined
    const blob = yield* Effect.mapError(context.engine.openFile(file, wanted), (error) => refusalFor(error))
    const about = { requestId: exchange.requestId, fileId: file.id }
    // The status has been sent by then, so the connection is cut, which tells the client that the file is incomplete.
    const body = Stream.tapError(blob.content, (error) =>
      Effect.annotateLogs(Effect.logError("sending a file failed partway", error), about),
    )
    return { status, headers, body }
  })

/** Returns for how many more seconds the URL is valid. */
const checkSignature = Effect.fnUntraced(function* (
  { keyring }: HandlerContext,
  { method, path, rawQuery }: Exchange,
): Effect.fn.Return<number, Refusal> {
  const nowSeconds = (yield* Clock.currentTimeMillis) / 1000
  const verified = verifySignedUrl(keyring, { method, path, rawQuery, purpose: "download", nowSeconds })
  if (!verified.ok)
    return yield* new Refusal({ code: verified.reason === "expired" ? "file_gone" : "file_url_invalid" })
  return verified.expiresAt - nowSeconds
})

/** Redirects to the blob store, after the same checks as for sending the file. */
const redirect = Effect.fnUntraced(function* (
  { engine }: HandlerContext,
  link: NonNullable<HandlerContext["linkBlob"]>,
  file: StoredFile,
  expiresInSeconds: number,
): Effect.fn.Return<Reply, Refusal> {
  const headers = fileHeaders(file)
  yield* Effect.mapError(engine.openFile(file), (error) => refusalFor(error))
  const options = {
    expiresInSeconds,
    contentType: headers["content-type"],
    contentDisposition: headers["content-disposition"],
  }
  const location = yield* Effect.mapError(link(file.blobKey, options), (error) => refusalFor(error))
  const { "cache-control": cacheControl, "referrer-policy": referrerPolicy } = headers
  const about = { "cache-control": cacheControl, "referrer-policy": referrerPolicy, "content-length": "0" }
  return { status: 302, headers: { ...about, location }, body: undefined }
})

/**
 * RFC 9110: ranges are for GET only. Files carry no validator, so an `If-Range` can match none, and then the whole file
 * is the answer.
 */
const rangeOf = (exchange: Exchange, file: StoredFile): ByteRange => {
  const isRanged = exchange.method === "GET" && exchange.header("if-range") === undefined
  return parseByteRange(isRanged ? exchange.singleHeader("range") : undefined, file.bytes)
}

const extensions: Readonly<Record<string, string>> = {
  "audio/aac": "aac",
  "audio/flac": "flac",
  "audio/mp4": "m4a",
  "audio/mpeg": "mp3",
  "audio/ogg": "ogg",
  "audio/opus": "opus",
  "audio/wav": "wav",
  "audio/webm": "webm",
  "audio/x-wav": "wav",
  "image/jpeg": "jpg",
  "image/png": "png",
  "image/webp": "webp",
}

/** Matches names of files that a header can contain. */
const VISIBLE = /^[\x20-\x7e]+$/

const fileHeaders = (file: StoredFile) => ({
  "accept-ranges": "bytes",
  "cache-control": "private, no-store",
  "content-disposition": `inline; filename="${file.jobId}.${extensions[file.mediaType] ?? "bin"}"`,
  // Whatever a provider sent, it must not run as a page of this origin.
  "content-security-policy": "default-src 'none'; sandbox",
  "content-type": VISIBLE.test(file.mediaType) ? file.mediaType : "application/octet-stream",
  "referrer-policy": "no-referrer",
})
