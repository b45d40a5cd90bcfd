import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { UploadId } from "@kiln/core/domain"
import { BodyBroken, hasEncodedBody, streamBody } from "../server/body.ts"
import { corsHeaders, preflightHeaders } from "../server/cors.ts"
import { type Exchange, noContent, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { digestVerifier, parseBodyDigests } from "../wire/BodyDigests.ts"
import { verifySignedUrl } from "../wire/SignedUrls.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { refusalFor } from "./refusalFor.ts"

/** Receives the file of an upload. The signed URL is the authorization; nothing else is asked for. */
export const receiveFile = (context: HandlerContext): Handler =>
  Effect.fnUntraced(function* (exchange, id): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    exchange.discardLimit = 2 * context.engine.settings.upload.maxBytes
    yield* checkSignature(context, exchange)
    // RFC 9110, section 14.5: a part of a file must not be stored as the whole.
    if (exchange.header("content-range") !== undefined) return yield* new Refusal({ code: "partial_upload" })
    const received = context.engine.receiveUpload({
      uploadId: id as UploadId,
      // Encoded bytes have no type that is accepted.
      contentType: hasEncodedBody(exchange) ? undefined : exchange.singleHeader("content-type"),
      contentLength: exchange.contentLength,
      content: yield* checkedByDigest(exchange, streamBody(exchange)),
    })
    // A sender that goes away ends the transfer at once, and frees its claim.
    yield* Effect.mapError(Effect.interruptible(received), (error) => {
      if (error instanceof BodyBroken || error instanceof Refusal) return error
      // The response must not reveal whether such an upload ever existed.
      return error._tag === "UploadNotFound" ? new Refusal({ code: "upload_url_invalid" }) : refusalFor(error)
    })
    return noContent
  })

/** Fails the body at its end if it does not have the digests in its headers, so that the transfer leaves nothing. */
const checkedByDigest = <E>(
  exchange: Exchange,
  content: Stream.Stream<Uint8Array, E>,
): Effect.Effect<Stream.Stream<Uint8Array, E | Refusal>, Refusal> => {
  const parsed = parseBodyDigests((name) => exchange.header(name))
  if (!parsed.ok)
    return new Refusal({
      code: "digest_mismatch",
      message: `${parsed.header} has no digest that can be verified. Send sha-256 or sha-512, or leave the header out.`,
    })
  if (parsed.digests.length === 0) return Effect.succeed(content)
  return Effect.succeed(
    Stream.suspend(() => {
      const verifier = digestVerifier(parsed.digests)
      const end = Stream.suspend(() =>
        verifier.matches() ? Stream.empty : Stream.fail(new Refusal({ code: "digest_mismatch" })),
      )
      return Stream.concat(
        Stream.mapArray(content, (pieces) => {
          for (const piece of pieces) verifier.update(piece)
          return pieces
        }),
        end,
      )
    }),
  )
}

const checkSignature = Effect.fnUntraced(function* (
  { keyring }: HandlerContext,
  { method, path, rawQuery }: Exchange,
): Effect.fn.Return<void, Refusal> {
  const nowSeconds = (yield* Clock.currentTimeMillis) / 1000
  const verified = verifySignedUrl(keyring, { method, path, rawQuery, purpose: "upload", nowSeconds })
  if (!verified.ok)
    return yield* new Refusal({ code: verified.reason === "expired" ? "upload_expired" : "upload_url_invalid" })
})

/** Answers the preflight request of a browser. The URL's signature is checked by the transfer itself. */
export const preflight =
  (methods: string): Handler =>
  () =>
    Effect.succeed({ ...noContent, headers: { ...corsHeaders, ...preflightHeaders(methods) } })
