import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Stream from "effect/Stream"
import { isBlob, isBytes } from "../domain/index.ts"
import type { AttemptError, AttemptFile } from "../kinds/AttemptContext.ts"
import { fieldOf } from "../providers/checks.ts"
import type { AsyncFile, FileBody } from "./AsyncProviders.ts"
import { failing } from "./AttemptParts.ts"
import type { KeepAlive } from "./KeepAlive.ts"

/** The content of a file, read once. It fails with what the body throws. */
export const streamOf = (body: FileBody): Stream.Stream<Uint8Array, unknown> => {
  if (isBytes(body)) return Stream.succeed(body)
  return Stream.fromAsyncIterable(isBlob(body) ? body.stream() : body, (cause) => cause)
}

const isAsyncIterable = (value: unknown): value is AsyncIterable<Uint8Array> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value

/** Turns a file of promise code into one of an attempt. What its stream throws ends the attempt as if `run` had thrown it. */
export const withStream = (file: AsyncFile): AttemptFile => {
  const data: unknown = fieldOf(file, "data")
  const mediaType = fieldOf(file, "mediaType") as string
  // The attempt reports anything else.
  if (isBytes(data) || !(isBlob(data) || isAsyncIterable(data))) return { data: data as Uint8Array, mediaType }
  const content = Stream.catchCause(streamOf(data as FileBody), (cause): Stream.Stream<never, AttemptError> =>
    Stream.fromEffect(failing(Cause.squash(cause))),
  )
  return { data: content, mediaType }
}

/**
 * Iterates over content that is opened by the first read. Leaving the loop closes it. A signal that aborts closes it too: the loop then
 * rejects, or with `hang` stands still for good.
 */
export const iterated = <A = Uint8Array>(
  open: () => Promise<Stream.Stream<A, unknown>>,
  context: Context.Context<never>,
  signals: () => ReadonlyArray<AbortSignal | undefined>,
  onAbort: "reject" | "hang" = "reject",
  keepAlive?: KeepAlive,
): AsyncIterable<A> => ({
  async *[Symbol.asyncIterator]() {
    const either = AbortSignal.any(signals().filter((signal) => signal !== undefined))
    const pieces = Stream.toAsyncIterableWith(await open(), context)[Symbol.asyncIterator]()
    // Not awaited: a stalled read must not delay a caller that stops reading.
    const close = () => void Promise.resolve(pieces.return?.()).catch(() => undefined)
    try {
      for (;;) {
        const read = pieces.next()
        const piece = await orAborted(keepAlive?.while(read) ?? read, either, (reject) => {
          if (onAbort === "reject") reject(either.reason)
          else close()
        })
        if (piece.done === true) return
        yield piece.value
      }
    } finally {
      close()
    }
  },
})

/** Returns the promise's value, unless the signal aborts first: then only `onAbort` can settle the result. */
const orAborted = <A>(
  promise: Promise<A>,
  signal: AbortSignal,
  onAbort: (reject: (reason: unknown) => void) => void,
): Promise<A> =>
  new Promise((resolve, reject) => {
    const abort = () => onAbort(reject)
    const ended =
      <B>(settle: (value: B) => void) =>
      (value: B) => {
        signal.removeEventListener("abort", abort)
        if (!signal.aborted) settle(value)
      }
    promise.then(ended(resolve), ended(reject))
    if (signal.aborted) abort()
    else signal.addEventListener("abort", abort, { once: true })
  })

/** Joins chunks with this total number of bytes. */
export const concat = (chunks: Iterable<Uint8Array>, bytes: number): Uint8Array => {
  const whole = new Uint8Array(bytes)
  let offset = 0
  for (const chunk of chunks) {
    whole.set(chunk, offset)
    offset += chunk.length
  }
  return whole
}
