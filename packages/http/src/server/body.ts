import { isReadonlyArrayNonEmpty, type NonEmptyReadonlyArray } from "effect/Array"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import { locateSyntaxError } from "../wire/locateSyntaxError.ts"
import { isIdentityEncoding, isJsonContentType } from "../wire/requestHeaders.ts"
import { parseJsonObject } from "../wire/StrictJson.ts"
import { type Exchange, maxJsonBytes, Refusal } from "./Exchange.ts"
import type { BodyEnd, ReadOptions } from "./RequestSource.ts"

/** Timeout for a JSON body, or for the rest of a discarded body, in milliseconds. */
export const bodyLimitMs = 30_000

/** The sender disconnected during the body, so there is no response. */
export class BodyBroken extends Data.TaggedError("BodyBroken")<{}> {}

/** Passes the body to `take` piece by piece and counts it, until it ends or `take` returns false. */
const readBody = (
  exchange: Exchange,
  take: (piece: Uint8Array) => boolean,
  options?: ReadOptions,
): Effect.Effect<BodyEnd> =>
  exchange.source.readBody((piece) => {
    exchange.bytesRead += piece.length
    return take(piece)
  }, options)

/**
 * Requests the body. A body that a parser has already read is lost: treating it as empty would blame the client, and the
 * parsed value differs from the bytes (duplicate keys, for example).
 */
const beginBody = ({ source }: Exchange): Effect.Effect<void> =>
  source.isBodyTaken
    ? Effect.die(
        new TypeError(
          "the body was read before kiln got the request: mount kiln before body parsers such as express.json(), or exclude its paths from them",
        ),
      )
    : Effect.sync(() => source.sendContinue())

const inTime = ({ source }: Exchange, read: Effect.Effect<BodyEnd>): Effect.Effect<BodyEnd | "late"> =>
  source.hasArrived
    ? read
    : Effect.interruptible(
        Effect.timeoutOrElse(read, { duration: bodyLimitMs, orElse: () => Effect.succeed("late" as const) }),
      )

/** Reads the whole body into one buffer. Fails with `body_too_large` as soon as it exceeds `maxBytes`. */
export const readWholeBody = (exchange: Exchange, maxBytes: number): Effect.Effect<Uint8Array, Refusal | BodyBroken> =>
  Effect.suspend(() => {
    let whole: Uint8Array = new Uint8Array(0)
    let length = 0
    const read = readBody(exchange, (piece) => {
      if (exchange.bytesRead > maxBytes) return false
      // Most bodies arrive in one piece, which is used without a copy.
      if (length === 0) whole = piece
      else {
        if (exchange.bytesRead > whole.length) whole = grown(whole.subarray(0, length), 2 * exchange.bytesRead)
        whole.set(piece, length)
      }
      length = exchange.bytesRead
      return true
    })
    const all = Effect.flatMap(inTime(exchange, read), (end): Effect.Effect<Uint8Array, Refusal | BodyBroken> => {
      if (end === "complete") return Effect.succeed(whole.subarray(0, length))
      if (end === "broken") return Effect.fail(new BodyBroken())
      return Effect.fail(new Refusal({ code: end === "stopped" ? "body_too_large" : "request_timeout" }))
    })
    return Effect.andThen(beginBody(exchange), all)
  })

const grown = (bytes: Uint8Array, size: number): Uint8Array => {
  const larger = new Uint8Array(size)
  larger.set(bytes)
  return larger
}

/** Bytes of a batch of a streamed body. Each batch takes a step of the stream and a write; the pieces in it are as they arrived. */
const batchBytes = 262_144

/** Streams the body in batches, on demand: unread bytes stay with the sender. */
export const streamBody = (exchange: Exchange): Stream.Stream<Uint8Array, BodyBroken> =>
  Stream.fromPull(Effect.as(beginBody(exchange), nextPieces(exchange)))

const nextPieces = (exchange: Exchange): Pull.Pull<NonEmptyReadonlyArray<Uint8Array>, BodyBroken> =>
  Effect.suspend(() => {
    const pieces: Array<Uint8Array> = []
    const read = readBody(exchange, (piece) => pieces.push(piece) > 0, { minBytes: batchBytes, once: true })
    return Effect.flatMap(read, (end): Pull.Pull<NonEmptyReadonlyArray<Uint8Array>, BodyBroken> => {
      if (end === "broken") return Effect.fail(new BodyBroken())
      return isReadonlyArrayNonEmpty(pieces) ? Effect.succeed(pieces) : Cause.done()
    })
  })

/**
 * Reads and discards the rest of a body before it is rejected, because many clients read only after they have sent
 * everything, and would lose an earlier response. Gives up after `maxBytes` in total or 30 s, and immediately for tiny
 * pieces, which cost far more than their bytes.
 */
export const discardBody = (exchange: Exchange, maxBytes: number): Effect.Effect<void> =>
  Effect.suspend(() =>
    exchange.source.hasMoreBody()
      ? Effect.asVoid(
          inTime(
            exchange,
            readBody(exchange, () => exchange.bytesRead < maxBytes, { stopsAtTrickle: true }),
          ),
        )
      : Effect.void,
  )

const maxDepth = 16

const messages: Partial<Record<string, string>> = {
  empty: "The body is empty. Send a JSON object.",
  encoding: "The body is not valid UTF-8. Encode the JSON as UTF-8.",
  not_an_object:
    "The body must be one JSON object, not an array, a string or another JSON value. Encode the object as JSON only once.",
  duplicate_key: "The body has a duplicate key in an object. Send each field once.",
  too_deep: `The body is nested more than ${maxDepth} levels deep.`,
}

/** Returns what to change so that the body has a type that is accepted. */
const typeMessage = (exchange: Exchange, isEncoded: boolean): string => {
  if (isEncoded) return "Send the body without Content-Encoding: compressed bodies are not supported here."
  const type = exchange.header("content-type")?.[0] ?? ""
  if (/^\s*multipart\//i.test(type))
    return "Send Content-Type: application/json, not a form. Upload the file first: create an upload with POST /v1/audio/uploads, PUT the file to its upload_url, and send its id as upload_id."
  return "Send Content-Type: application/json, and encode the body as UTF-8."
}

const syntaxMessage = (bytes: Uint8Array): string => {
  const place = locateSyntaxError(new TextDecoder().decode(bytes))
  if (place === undefined) return "The body has a number that is too large. Numbers can be at most 1.7e308."
  const where = `line ${place.line}, column ${place.column}`
  if (place.isEnd)
    return `The JSON ends too early, at ${where}. Send the whole body, with all closing quotes and brackets.`
  return `The body is not valid JSON at ${where}. Put names and strings in double quotes, write line breaks in strings as \\n, and remove commas before } and ].`
}

/** Reads the body as one JSON object. Rejects by content type (415), then by size (413), then by content (400). */
export const readJsonObject = (exchange: Exchange): Effect.Effect<Record<string, unknown>, Refusal | BodyBroken> => {
  const isEncoded = !isIdentityEncoding(exchange.header("content-encoding"))
  if (isEncoded || !isJsonContentType(exchange.header("content-type")))
    return Effect.fail(
      new Refusal({
        code: "unsupported_content_type",
        message: typeMessage(exchange, isEncoded),
        details: { expected: ["application/json"] },
      }),
    )
  if ((exchange.contentLength ?? 0) > maxJsonBytes) return Effect.fail(new Refusal({ code: "body_too_large" }))
  return Effect.flatMap(readWholeBody(exchange, maxJsonBytes), (bytes) => {
    const parsed = parseJsonObject(bytes, { maxDepth })
    if (parsed.ok) return Effect.succeed(parsed.value)
    const message = parsed.problem === "syntax" ? syntaxMessage(bytes) : messages[parsed.problem]
    return Effect.fail(new Refusal({ code: "invalid_json", ...(message !== undefined && { message }) }))
  })
}
