import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { JobFamily } from "@kiln/client"
import type { Chunk } from "@kiln/core/domain"
import { asStep, type Exchange, Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { findJob } from "./pollJob.ts"
import { refusalFor } from "./refusalFor.ts"

/** Interval of comments, which keep proxies from closing a silent stream. */
const commentEveryMs = 15_000

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  // Proxies that gather responses must not gather this one.
  "x-accel-buffering": "no",
}

const encoder = new TextEncoder()
const comment = encoder.encode(":\n\n")

const chunkEvent = ({ attempt, index, value }: Chunk): Uint8Array =>
  encoder.encode(`id: ${index}\ndata: ${JSON.stringify({ index, attempt, value })}\n\n`)

const endEvent = (status: string | null): Uint8Array =>
  encoder.encode(`event: end\ndata: ${JSON.stringify({ status })}\n\n`)

/** The index of the first chunk that the client lacks; `undefined` for an id that is none of the stream. */
const firstIndex = (exchange: Exchange): number | undefined => {
  const given = exchange.header("last-event-id")
  if (given === undefined) return 0
  const [last = "", second] = given
  return second === undefined && /^(?:0|[1-9][0-9]{0,14})$/.test(last) ? Number(last) + 1 : undefined
}

const wrongId = new Refusal({
  code: "invalid_request",
  param: "Last-Event-ID",
  message: "Last-Event-ID must be the id of an event of this stream, such as 41.",
})

const isFull = new Refusal({
  code: "service_unavailable",
  message: "Too many requests wait for jobs. Close streams that are not read any more, or repeat the request later.",
})

/** Returns the number of the tick, or fails once the key is no longer valid. */
const stillValid = (context: HandlerContext, exchange: Exchange, clock: Clock.Clock, tick: number) =>
  Effect.suspend(() => Effect.as(asStep(context.confirm(exchange, clock)), tick))

/** Sends the chunks of a job as events, from the one after `Last-Event-ID`, until the job has finished. */
export const streamJob = (context: HandlerContext, family: JobFamily, keyScope: string): Handler =>
  Effect.fnUntraced(function* (exchange, path, clock): Effect.fn.Return<Reply, Refusal> {
    const grant = yield* asStep(context.admit(exchange, keyScope, "read", clock))
    const [id = ""] = path.split("/")
    const jobId = yield* findJob(context, grant, { family, id }, (job) => job.id)
    const from = firstIndex(exchange)
    if (from === undefined) return yield* Effect.fail(wrongId)
    if (!context.waits.hasRoom(grant)) return yield* Effect.fail(isFull)
    // Old records are deleted, also while a slow client reads the chunks.
    const end = Effect.matchEffect(context.engine.pollJob(grant, jobId), {
      onSuccess: ({ status }) => Effect.succeed(endEvent(status)),
      onFailure: (error) =>
        error._tag === "JobNotFound" ? Effect.succeed(endEvent(null)) : Effect.fail(refusalFor(error)),
    })
    const events = Stream.concat(
      Stream.map(context.engine.streamChunks(jobId, from), chunkEvent),
      Stream.fromEffect(end),
    )
    const { confirmEveryMs } = context
    const isComment = (tick: number): boolean => tick % Math.floor(commentEveryMs / confirmEveryMs) === 0
    // The first tick is immediate, and its comment sends the headers. Each later tick checks the key again.
    const comments = Stream.tick(confirmEveryMs).pipe(
      Stream.mapEffect((_, tick) => (tick === 0 ? Effect.succeed(0) : stillValid(context, exchange, clock, tick))),
      Stream.filter(isComment),
      Stream.map(() => comment),
    )
    const body = Stream.merge(events, comments, { haltStrategy: "left" })
    return { status: 200, headers, body: context.waits.streaming(grant, body) }
  })
