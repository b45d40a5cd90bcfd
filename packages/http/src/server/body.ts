import { Data, Effect, Stream } from "effect"
import type { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"
import type { BodyEnd, ReadOptions } from "./RequestSource.ts"

/** Longest wait for the rest of a body, in milliseconds: of a JSON body, or of one that is only thrown away. */
const bodyLimitMs = 30_000

/** The sender went away in the middle of the body: nobody is left to answer. */
export class BodyBroken extends Data.TaggedError("BodyBroken")<{}> {}

/** Bytes of a piece of an upload, where its sender has as many: each is hashed and written on its own. */
const uploadPieceBytes = 32_768

/** Hands over the body piece by piece, counted, until it ends or `take` returns false. */
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
 * Asks for the body. What a body parser has read before is gone: an empty body in its place would be blamed on the client,
 * and what the parser made of it is not what was sent (keys that stood twice, for example).
 */
const beginBody = ({ source }: Exchange): Effect.Effect<void> =>
  source.isBodyTaken
    ? Effect.die(
        new TypeError(
          "the body was read before kiln got the request: mount kiln before body parsers such as express.json(), or keep them off its paths",
        ),
      )
    : Effect.sync(() => source.sendContinue())

const inTime = (read: Effect.Effect<BodyEnd>): Effect.Effect<BodyEnd | "late"> =>
  Effect.interruptible(
    Effect.timeoutOrElse(read, { duration: bodyLimitMs, orElse: () => Effect.succeed("late" as const) }),
  )

/** The whole body, in one buffer. Fails with `body_too_large` as soon as it is longer than `maxBytes`. */
export const readWholeBody = (exchange: Exchange, maxBytes: number): Effect.Effect<Uint8Array, Refusal | BodyBroken> =>
  Effect.suspend(() => {
    let whole: Uint8Array = new Uint8Array(0)
    let length = 0
    const read = readBody(exchange, (piece) => {
      if (exchange.bytesRead > maxBytes) return false
      // Most bodies come in one piece, which is then used as it is.
      if (length === 0) whole = piece
      else {
        if (exchange.bytesRead > whole.length) whole = grown(whole.subarray(0, length), 2 * exchange.bytesRead)
        whole.set(piece, length)
      }
      length = exchange.bytesRead
      return true
    })
    const all = Effect.flatMap(inTime(read), (end): Effect.Effect<Uint8Array, Refusal | BodyBroken> => {
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

/** The body as it arrives, pulled in pieces of useful size: what is not asked for stays with the sender. */
export const streamBody = (exchange: Exchange): Stream.Stream<Uint8Array, BodyBroken> =>
  Stream.unwrap(
    Effect.as(
      beginBody(exchange),
      Stream.unfold(undefined, () => nextPiece(exchange)),
    ),
  )

const nextPiece = (exchange: Exchange): Effect.Effect<readonly [Uint8Array, undefined] | undefined, BodyBroken> =>
  Effect.suspend(() => {
    let piece: Uint8Array | undefined
    const read = readBody(
      exchange,
      (bytes) => {
        piece = bytes
        return false
      },
      { minBytes: uploadPieceBytes },
    )
    return Effect.flatMap(read, (end) =>
      end === "broken"
        ? Effect.fail(new BodyBroken())
        : Effect.succeed(piece === undefined ? undefined : ([piece, undefined] as const)),
    )
  })

/**
 * Reads and throws away what is left of a body before it is refused: many clients listen only after they have sent
 * everything, and lose an answer that comes earlier. Gives up after `maxBytes` of it in all, or 30 s, and at once where its
 * sender trickles: a body in tiny pieces costs far more than its bytes, and nobody will use it.
 */
export const discardBody = (exchange: Exchange, maxBytes: number): Effect.Effect<void> =>
  Effect.suspend(() =>
    exchange.source.hasMoreBody()
      ? Effect.asVoid(inTime(readBody(exchange, () => exchange.bytesRead < maxBytes, { stopsAtTrickle: true })))
      : Effect.void,
  )
