import { Effect } from "effect"

/** How reading a body ended: at its end, because the sender went away, or because the reader had enough. */
export type BodyEnd = "complete" | "broken" | "stopped"

/** The end of a body that is not there. */
export const nothingToRead: Effect.Effect<BodyEnd> = Effect.succeed("complete")

export interface ReadOptions {
  /** Waits briefly for pieces of at least this many bytes; 1 by default. */
  readonly minBytes?: number
  /** Stops as soon as the sender trickles: it sends so many tiny pieces that it has to wait for its turn. False by default. */
  readonly stopsAtTrickle?: boolean
}

/** A request as it comes in, whatever server it comes from. */
export interface RequestSource {
  readonly method: string
  /** Path and query as they were sent, never decoded. May name the server too: `http://host/path`. */
  readonly target: string
  /** The other end of the connection; `undefined` where the server does not tell. */
  readonly remoteAddress: string | undefined
  /** RFC 9112, section 3.2: HTTP/1.1 has exactly one `Host`. */
  readonly hasOneHost: boolean
  /** The values of a header: one per line received, or all of them in one where the server has joined them. */
  readonly header: (lowerCaseName: string) => ReadonlyArray<string> | undefined
  /** Whether something else has read from the body before kiln saw the request: then it is lost. */
  readonly isBodyTaken: boolean
  /** Whether there is something left of the body that will come without being asked for. */
  readonly hasMoreBody: () => boolean
  /** Says `100 Continue` to a sender that waits for it. Once at most. */
  readonly sendContinue: () => void
  /**
   * Hands over the body in pieces of useful size until it ends or `take` returns false; the rest stays with the sender until it
   * is read. Interruption stops it without losing anything.
   */
  readonly readBody: (take: (piece: Uint8Array) => boolean, options?: ReadOptions) => Effect.Effect<BodyEnd>
}
