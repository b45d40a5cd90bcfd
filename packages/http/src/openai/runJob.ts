import { hash } from "node:crypto"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { errorMessageOf, type Grant, isFinished, type Job, type KeyLimits } from "@kiln/core/domain"
import type { OfferedKind } from "../handlers/offerKinds.ts"
import { refusalFor } from "../handlers/refusalFor.ts"
import { asStep, type Exchange, jsonReply, Refusal, type Reply } from "../server/Exchange.ts"
import { parseIdempotencyKey } from "../handlers/createJob.ts"
import type { OpenAiContext } from "./OpenAiContext.ts"
import type { OpenAiKind } from "./models.ts"

/** Milliseconds that a client of OpenAI pauses before a retry, at most, with the restart of a server. */
const retryMarginMs = 60_000

export const offerOf = (context: OpenAiContext, kind: OpenAiKind): OfferedKind => {
  const offer = context.offers.get(kind)
  if (offer === undefined) throw new Error(`the engine does not have the kind ${kind}`)
  return offer
}

/** Copies the rate limit into the headers that clients of OpenAI read. */
const limitHeaders = ({ responseHeaders }: Exchange): void => {
  const [, remaining, reset] = /;r=(\d+);t=(\d+)/.exec(responseHeaders["RateLimit"] ?? "") ?? []
  const [, limit] = /;q=(\d+)/.exec(responseHeaders["RateLimit-Policy"] ?? "") ?? []
  if (remaining === undefined || reset === undefined || limit === undefined) return
  responseHeaders["x-ratelimit-limit-requests"] = limit
  responseHeaders["x-ratelimit-remaining-requests"] = remaining
  responseHeaders["x-ratelimit-reset-requests"] = `${reset}s`
}

/** Checks key, scope and rate limit. A refusal has the headers of the rate limit too. */
export const admitted = <S extends string>(
  context: OpenAiContext,
  exchange: Exchange,
  scope: S,
  limit: keyof KeyLimits,
  clock: Clock.Clock,
): Effect.Effect<Grant<S>, Refusal> =>
  Effect.ensuring(
    asStep(context.admit(exchange, scope, limit, clock)),
    Effect.sync(() => limitHeaders(exchange)),
  )

/** The number of times that a client of OpenAI has sent this request before. */
const retryCount = (exchange: Exchange): number => {
  const text = exchange.singleHeader("x-stainless-retry-count") ?? ""
  return /^[0-9]{1,2}$/.test(text) ? Number(text) : 0
}

/** Returns whether the request may be the repeat of another one. */
export const isRepeatable = (exchange: Exchange): boolean =>
  retryCount(exchange) > 0 || exchange.header("idempotency-key") !== undefined

const keyFor = (exchange: Exchange, index: number): Effect.Effect<string | undefined, Refusal> => {
  const values = exchange.header("idempotency-key")
  if (values === undefined) return Effect.succeed(undefined)
  const parsed = parseIdempotencyKey(values)
  if (!parsed.ok) return Effect.fail(new Refusal({ code: `idempotency_key_${parsed.reason}` }))
  if (index === 0) return Effect.succeed(parsed.key)
  return Effect.succeed(`${parsed.key.length > 240 ? hash("sha256", parsed.key) : parsed.key}#${index + 1}`)
}

/**
 * Creates the job of a request. Clients of OpenAI send no idempotency key, but count their retries. Each first attempt takes the scope of
 * its body without regard to another job; a retry gets the job that has it, which may have been accepted by a process that is gone.
 */
export const createFor = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  { kind, names }: OfferedKind,
  asked: {
    readonly request: Readonly<Record<string, unknown>>
    readonly body: unknown
    readonly index: number
    /** Whether `body` is what a repeated `Idempotency-Key` is compared by, because the request names a new upload each time. */
    readonly isComparedByBody?: boolean
  },
): Effect.fn.Return<Job, Refusal> {
  const key = yield* keyFor(exchange, asked.index)
  const retries = retryCount(exchange)
  const within = retries === 0 ? 0 : (retries + 1) * context.openAi.waitMs + retryMarginMs
  const text = JSON.stringify(asked.body)
  const placement = {
    requireLiveWorker: context.requireLiveWorker,
    ...(asked.isComparedByBody === true && { comparedAs: text }),
    ...(key === undefined && {
      unique: { by: `openai ${asked.index} ${text}`, while: within },
    }),
  }
  const created = context.engine.createJob(grant, kind, names.toRequest(asked.request), key, placement)
  const { job } = yield* Effect.mapError(created, (error) =>
    error._tag === "InvalidRequest" ? names.refuse(error.errors) : refusalFor(error),
  )
  exchange.createdJobId ??= job.id
  const ids = exchange.responseHeaders["x-kiln-job-id"]
  exchange.responseHeaders["x-kiln-job-id"] = ids === undefined ? job.id : `${ids}, ${job.id}`
  return job
})

/** Returns the finished job, or the reply of one that has failed or has not ended in time. */
export const awaitEnd = Effect.fnUntraced(function* (
  context: OpenAiContext,
  exchange: Exchange,
  grant: Grant,
  job: Job,
  untilMs: number,
  clock: Clock.Clock,
): Effect.fn.Return<{ readonly done: Job } | { readonly reply: Reply }, Refusal> {
  const now = () => clock.currentTimeMillisUnsafe()
  if (!isFinished(job)) {
    exchange.source.holdOpen?.()
    yield* context.waits.waitForEnd(grant, job.id, Math.max(0, untilMs - now()))
    yield* asStep(context.confirm(exchange, clock))
  }
  const ended = yield* Effect.mapError(context.engine.getJob(grant, job.id), (error) => refusalFor(error))
  if (!isFinished(ended)) {
    if (now() < untilMs - 50)
      return yield* new Refusal({
        code: "service_unavailable",
        message: `The job ${job.id} keeps running. Repeat the request to wait for it.`,
        headers: { "retry-after": "1" },
      })
    const message = `The job ${job.id} has not ended within ${context.openAi.waitMs / 1_000} s. It keeps running: repeat the request with the same Idempotency-Key, or poll GET /v1/jobs/{id}.`
    return { reply: errorReply(exchange, 504, "api_error", "wait_timeout", message, ended.id) }
  }
  if (ended.status === "done") {
    if (ended.retained === "kept") return { done: ended }
    return yield* new Refusal({ code: "file_gone" })
  }
  return { reply: failedReply(exchange, ended) }
})

/** Errors that another request would have as well. */
const faults: ReadonlySet<string> = new Set([
  "audio_unreadable",
  "audio_too_long",
  "audio_too_short",
  "content_rejected",
  "provider_rejected",
])

const failedReply = (exchange: Exchange, job: Job): Reply => {
  const code = job.errorCode ?? "internal_error"
  const isFault = faults.has(code)
  const message = errorMessageOf(job) ?? `The job ${job.id} has failed: ${code}.`
  // The job's own attempts are over: a client that repeats the request would buy another one.
  const { body, headers, status } = errorReply(
    exchange,
    isFault ? 400 : 502,
    isFault ? "invalid_request_error" : "api_error",
    code,
    message,
    job.id,
  )
  return { status, body, headers: { ...headers, "x-should-retry": "false" } }
}

const errorReply = (
  exchange: Exchange,
  status: number,
  type: string,
  code: string,
  message: string,
  jobId: string,
): Reply =>
  jsonReply(status, {
    error: { type, code, message, param: null, details: { job_id: jobId }, request_id: exchange.requestId },
  })
