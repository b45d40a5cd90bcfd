import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { ResultOf } from "../api/index.ts"
import { monotonicMs } from "@kiln/core/effect"

const encoder = new TextEncoder()

/** Milliseconds between two looks, and seconds of silence after which a line is sent so that proxies keep the connection. */
const everyMs = 1_000
const keepAliveMs = 15_000

/** Viewers at most; more of them poll. */
const mostViewers = 200

/** Reads the overview, and the monotonic clock. */
type Read = () => Promise<{ readonly overview: ResultOf<"overview">; readonly now: number }>

interface Viewer {
  readonly send: (bytes: Uint8Array) => void
  readonly end: () => void
}

const eventOf = (overview: ResultOf<"overview">): Uint8Array =>
  encoder.encode(`event: overview\ndata: ${JSON.stringify(overview)}\n\n`)

/** Returns an overview without its time, to see whether anything changed. */
const contentOf = ({ at: _, ...content }: ResultOf<"overview">): string => JSON.stringify(content)

/** Sends the overview to all viewers as server-sent events: one look a second for all of them, and none while nobody watches. */
class OverviewStream {
  readonly #read: Read
  readonly #viewers = new Set<Viewer>()
  #timer: NodeJS.Timeout | undefined
  #last: { readonly content: string; readonly sentAt: number } | undefined
  #isLooking = false

  constructor(read: Read) {
    this.#read = read
  }

  /** Returns the response of a new viewer; `undefined` if there are too many. */
  open(): Response | undefined {
    if (this.#viewers.size >= mostViewers) return undefined
    let leave = (): void => undefined
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const viewer: Viewer = {
          send: (bytes) => {
            // A reader that is behind misses this one; the next has everything.
            if ((controller.desiredSize ?? 0) > 0) controller.enqueue(bytes)
          },
          end: () => controller.close(),
        }
        leave = () => {
          this.#viewers.delete(viewer)
          if (this.#viewers.size === 0) this.#rest()
        }
        this.#viewers.add(viewer)
        this.#last = undefined
        this.#timer ??= setInterval(() => void this.#look(), everyMs)
        void this.#look()
      },
      cancel: () => leave(),
    })
    return new Response(body, {
      headers: {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-accel-buffering": "no",
      },
    })
  }

  /** Ends all responses. */
  close(): void {
    for (const viewer of this.#viewers) viewer.end()
    this.#viewers.clear()
    this.#rest()
  }

  #rest(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const { now, overview } = await this.#read()
      const content = contentOf(overview)
      if (this.#last?.content === content && now - this.#last.sentAt < keepAliveMs) return
      this.#last = { content, sentAt: now }
      const event = eventOf(overview)
      for (const viewer of this.#viewers) viewer.send(event)
    } catch {
      // The store does not answer; viewers see that nothing arrives.
    } finally {
      this.#isLooking = false
    }
  }
}

/** Returns a stream whose reads run with these services, until the scope closes. */
export const makeStream = <R>(read: Effect.Effect<ResultOf<"overview">, unknown, R>) =>
  Effect.acquireRelease(
    Effect.contextWith((context: Context.Context<R>) =>
      Effect.sync(
        () =>
          new OverviewStream(() => Effect.runPromiseWith(context)(Effect.all({ overview: read, now: monotonicMs }))),
      ),
    ),
    (stream) => Effect.sync(() => stream.close()),
  )
