import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { UploadId } from "@kiln/core/domain"
import { BodyBroken, streamBody } from "../server/body.ts"
import { corsHeaders, preflightHeaders } from "../server/cors.ts"
import type { Exchange } from "../server/Exchange.ts"
import { Refusal } from "../server/Refusal.ts"
import { noContent, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { verifySignedUrl } from "../wire/SignedUrls.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { refusalFor } from "./refusalFor.ts"

/** Receives the file of an upload. The signed URL is the authorization; nothing else is asked for. */
export const receiveFile = (context: HandlerContext): Handler =>
  Effect.fnUntraced(function* (exchange, id): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    exchange.discardLimit = 2 * context.engine.settings.upload.maxBytes
    yield* checkSignature(context, exchange)
    const received = context.engine.receiveUpload({
      uploadId: id as UploadId,
      contentType: exchange.singleHeader("content-type"),
      contentLength: exchange.contentLength,
      content: streamBody(exchange),
    })
    // A sender that goes away ends the transfer at once, and frees its claim.
    yield* Effect.mapError(Effect.interruptible(received), (error) => {
      if (error instanceof BodyBroken) return error
      // The response must not reveal whether such an upload ever existed.
      return error._tag === "UploadNotFound" ? new Refusal({ code: "upload_url_invalid" }) : refusalFor(error)
    })
    return noContent
  })

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
