import { isReadonlyArrayNonEmpty, type NonEmptyReadonlyArray } from "effect/Array"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"
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
