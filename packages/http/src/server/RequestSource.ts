import * as Effect from "effect/Effect"
import type * as Tracer from "effect/Tracer"

/** Why reading a body ended: complete, the sender disconnected, or the reader stopped. */
export type BodyEnd = "complete" | "broken" | "stopped"

/** The result of reading an absent body. */
export const nothingToRead: Effect.Effect<BodyEnd> = Effect.succeed("complete")

export interface ReadOptions {
  /** Waits briefly until this many bytes have arrived before it passes them on; 1 by default. */
  readonly minBytes?: number
  /** Stops after it has passed on what has arrived. False by default. */
  readonly once?: boolean
  /** Stops as soon as the sender has sent so many tiny pieces that it must wait for its turn. False by default. */
  readonly stopsAtTrickle?: boolean
}

/** An incoming request, independent of the server. */
export interface RequestSource {
  readonly method: string
  /** Path and query as sent, never decoded. May be in absolute form: `http://host/path`. */
  readonly target: string
  /** Remote address of the connection; `undefined` if the server does not provide it. */
  readonly remoteAddress: string | undefined
  /** The span of the host for this request, if a host traces. */
  readonly hostSpan: Tracer.AnySpan | undefined
  /** RFC 9112, section 3.2: HTTP/1.1 has exactly one `Host`. */
  readonly hasOneHost: boolean
  /** Returns the values of a header: one per line, or a single one if the server has joined them. */
  readonly header: (lowerCaseName: string) => ReadonlyArray<string> | undefined
  /** True if something else has read from the body before kiln, so that it is lost. */
  readonly isBodyTaken: boolean
  /** True if the whole body has arrived, so that reading it does not wait. */
  readonly hasArrived: boolean
  /** Returns whether part of the body is still to come without a request for it. */
  readonly hasMoreBody: () => boolean
  /** Sends `100 Continue` to a sender that waits for it, at most once. */
  readonly sendContinue: () => void
  /** Keeps the connection open while it is silent until the response, longer than the server allows idle ones. */
  readonly holdOpen?: () => void
  /**
   * Passes the body to `take` in pieces of useful size until it ends or `take` returns false; the rest stays with the sender
   * until it is read. Interruption loses nothing.
   */
  readonly readBody: (take: (piece: Uint8Array) => boolean, options?: ReadOptions) => Effect.Effect<BodyEnd>
}
