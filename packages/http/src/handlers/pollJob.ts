import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import { errorMessageOf, isFinished, isId, type JobId, type PolledJob, type Principal } from "@kiln/core/domain"
import type { Exchange } from "../server/Exchange.ts"
import type { Hold } from "../server/JobWaits.ts"
import { asStep, whenReady } from "../server/Ready.ts"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, noContent, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { preferredWait } from "../wire/requestHeaders.ts"
import { fileUrlExpiry, signDownload } from "../wire/SignedUrls.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { outputBody, pollingPath, progressBody, stateBody } from "./jobBodies.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusalFor } from "./refusalFor.ts"

/** Finds the caller's job in a family, and passes it on. A job of another family is not found. */
export const findJob = <A>(
  context: HandlerContext,
  principal: Principal,
  { family, id }: { readonly family: JobFamily; readonly id: string },
  use: (job: PolledJob, offer: OfferedKind) => A,
): Effect.Effect<A, Refusal> =>
  Effect.matchEffect(context.engine.pollJob(principal, id), {
    onFailure: (error) => Effect.fail(refusalFor(error)),
    onSuccess: (job) => {
      const offer = context.offers.get(job.kind)
      return offer?.family.group === family.group
        ? Effect.succeed(use(job, offer))
        : Effect.fail(new Refusal({ code: "job_not_found" }))
    },
  })

const notHeld = Effect.succeed(false)
const released = (hold: Hold | undefined): Effect.Effect<void> => Effect.sync(() => hold?.release())

/** Adds what a client that prefers to wait is told: the seconds that were applied, if they were. */
const heldReply = <E>(answered: Effect.Effect<Reply, E>, seconds: number | undefined): Effect.Effect<Reply, E> =>
  Effect.map(answered, (reply) => ({
    ...reply,
    headers: {
      ...reply.headers,
      vary: "prefer",
      ...(seconds !== undefined && { "preference-applied": `wait=${seconds}` }),
    },
  }))

/** Returns the state of a job. Few steps and no generator, because this is the most frequent request. */
export const pollJob = (context: HandlerContext, family: JobFamily, keyScope: string): Handler => {
  const { defaultCurrency } = context.engine.settings
  const reply = (job: PolledJob, offer: OfferedKind, nowMs: number, retry?: JobId): Reply => {
    const expiresAtSeconds = fileUrlExpiry(nowMs)
    const fileUrl = (fileId: string) =>
      signDownload(context.keyring, { publicUrl: context.publicUrl(), fileId, expiresAtSeconds })
    const state = stateBody[family.body](job, outputBody(job, offer, fileUrl), defaultCurrency)
    const message = errorMessageOf(job)
    const body = {
      ...state,
      ...(message !== null && { error_message: message }),
      ...(job.progress !== null && { progress: progressBody(job.progress) }),
    }
    if (!isFinished(job)) return jsonReply(200, body, { "retry-after": "2" })
    if (retry === undefined) return jsonReply(200, body)
    return jsonReply(200, body, { link: `<${context.publicUrl()}${pollingPath(family, retry)}>; rel="latest-version"` })
  }
  /** Only a failed job may have been retried. */
  const answer = (grant: Principal, job: PolledJob, offer: OfferedKind, nowMs: number) =>
    job.status === "failed"
      ? Effect.mapBoth(context.engine.latestRetry(grant, job), {
          onFailure: (error) => refusalFor(error),
          onSuccess: (retry) => reply(job, offer, nowMs, retry),
        })
      : Effect.succeed(reply(job, offer, nowMs))
  const now = (grant: Principal, id: string, clock: Clock.Clock) =>
    Effect.flatten(
      findJob(context, grant, { family, id }, (job, offer) =>
        answer(grant, job, offer, clock.currentTimeMillisUnsafe()),
      ),
    )
  /** Answers once the job has ended, or the wait that the client prefers is over. Few steps, because thousands wait in them. */
  const waiting = (exchange: Exchange, grant: Principal, id: string, clock: Clock.Clock, seconds: number) => {
    const hold = isId("job", id) ? context.waits.hold(grant, id, seconds * 1_000) : undefined
    const last = findJob(context, grant, { family, id }, (job, offer) =>
      isFinished(job) ? answer(grant, job, offer, clock.currentTimeMillisUnsafe()) : undefined,
    )
    return Effect.flatMap(
      Effect.onError(last, () => released(hold)),
      (finished) => {
        if (finished !== undefined) return Effect.andThen(released(hold), heldReply(finished, seconds))
        return Effect.flatMap(hold?.ended ?? notHeld, (wasHeld) =>
          Effect.andThen(
            asStep(context.confirm(exchange, clock)),
            heldReply(now(grant, id, clock), wasHeld ? seconds : undefined),
          ),
        )
      },
    )
  }
  return (exchange, id, clock) =>
    whenReady(context.admit(exchange, keyScope, "read", clock), (grant): Effect.Effect<Reply, Refusal> => {
      const seconds = preferredWait(exchange.header("prefer"))
      return seconds === undefined ? now(grant, id, clock) : waiting(exchange, grant, id, clock, seconds)
    })
}

/** Deletes the retained data of a finished job. Repeating the request returns the same response. */
export const eraseJobData = (context: HandlerContext, family: JobFamily, keyScope: string): Handler =>
  Effect.fnUntraced(function* (exchange, id, clock): Effect.fn.Return<Reply, Refusal> {
    const grant = yield* asStep(context.admit(exchange, keyScope, "delete", clock))
    yield* findJob(context, grant, { family, id }, () => undefined)
    yield* Effect.mapError(context.engine.eraseJobData(grant, id), (error) => refusalFor(error))
    return noContent
  })
