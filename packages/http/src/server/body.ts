import { Data, Effect, Stream } from "effect"
import type { Exchange } from "./Exchange.ts"
import { awaitsContinue, sendContinue } from "./expectContinue.ts"
import { Refusal } from "./Refusal.ts"

/** Longest wait for the rest of a body, in milliseconds: of a JSON body, or of one that is only thrown away. */
const bodyLimitMs = 30_000

/** The sender went away in the middle of the body: nobody is left to answer. */
export class BodyBroken extends Data.TaggedError("BodyBroken")<{}> {}

type BodyEnd = "complete" | "broken" | "stopped"

/**
 * Hands over the body piece by piece until it ends or `take` says to stop. Leaves the request paused, so that the rest
 * stays with the sender until somebody else reads on.
 */
const readBody = (exchange: Exchange, take: (piece: Buffer) => boolean): Effect.Effect<BodyEnd> =>
  Effect.callback((resume) => {
    const { source } = exchange
    if (source.readableEnded) return resume(Effect.succeed("complete"))
    if (source.destroyed) return resume(Effect.succeed("broken"))
    const onData = (piece: Buffer) => {
      exchange.bytesRead += piece.length
      if (!take(piece)) finish("stopped")
    }
    const onEnd = () => finish("complete")
    const onBroken = () => finish("broken")
    const stop = () => {
      source.pause()
      source.off("data", onData).off("end", onEnd).off("error", onBroken).off("close", onBroken)
    }
    const finish = (end: BodyEnd) => {
      stop()
      resume(Effect.succeed(end))
    }
    source.on("data", onData).on("end", onEnd).on("error", onBroken).on("close", onBroken)
    source.resume()
    return Effect.sync(stop)
  })

const inTime = (read: Effect.Effect<BodyEnd>): Effect.Effect<BodyEnd | "late"> =>
  Effect.interruptible(
    Effect.timeoutOrElse(read, { duration: bodyLimitMs, orElse: () => Effect.succeed("late" as const) }),
  )

/** The whole body, in memory. Fails with `body_too_large` as soon as it is longer than `maxBytes`. */
export const readWholeBody = (exchange: Exchange, maxBytes: number): Effect.Effect<Uint8Array, Refusal | BodyBroken> =>
  Effect.suspend(() => {
    sendContinue(exchange.source, exchange.response)
    const pieces: Array<Buffer> = []
    const read = readBody(exchange, (piece) => {
      pieces.push(piece)
      return exchange.bytesRead <= maxBytes
    })
    return Effect.flatMap(inTime(read), (end): Effect.Effect<Uint8Array, Refusal | BodyBroken> => {
      if (end === "complete")
        return Effect.succeed(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces))
      if (end === "broken") return Effect.fail(new BodyBroken())
      return Effect.fail(new Refusal({ code: end === "stopped" ? "body_too_large" : "request_timeout" }))
    })
  })

/** The body as it arrives, pulled piece by piece: what is not asked for stays with the sender. */
export const streamBody = (exchange: Exchange): Stream.Stream<Uint8Array, BodyBroken> =>
  Stream.suspend(() => {
    sendContinue(exchange.source, exchange.response)
    return Stream.unfold(undefined, () => nextPiece(exchange))
  })

const nextPiece = (exchange: Exchange): Effect.Effect<readonly [Uint8Array, undefined] | undefined, BodyBroken> =>
  Effect.suspend(() => {
    let piece: Buffer | undefined
    const read = readBody(exchange, (bytes) => {
      piece = bytes
      return false
    })
    return Effect.flatMap(read, (end) =>
      end === "broken"
        ? Effect.fail(new BodyBroken())
        : Effect.succeed(piece === undefined ? undefined : ([piece, undefined] as const)),
    )
  })

/**
 * Reads and throws away what is left of a body before it is refused: many clients listen only after they have sent
 * everything, and lose an answer that comes earlier. Gives up after `maxBytes` of it in all, or 30 s.
 */
export const discardBody = (exchange: Exchange, maxBytes: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { headers, readableEnded } = exchange.source
    const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0
    if (!hasBody || readableEnded || awaitsContinue(exchange.source)) return Effect.void
    return Effect.asVoid(inTime(readBody(exchange, () => exchange.bytesRead < maxBytes)))
  })
