import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { JobBody } from "@kiln/client/api"
import {
  type Billing,
  billingOf,
  errorMessageOf,
  isFinished,
  isId,
  type JobId,
  type JsonObject,
  type PolledJob,
  type Principal,
  type Progress,
} from "@kiln/core/domain"
import { asStep, type Exchange, jsonReply, noContent, Refusal, type Reply, whenReady } from "../server/Exchange.ts"
import type { Hold } from "../server/JobWaits.ts"
import type { Handler } from "../server/app.ts"
import { fileUrlExpiry, signDownload } from "../wire/SignedUrls.ts"
import { jobUrl } from "./createJob.ts"
import type { HandlerContext } from "./HandlerContext.ts"
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
    const fileUrl = (fileId: string) =>
      signDownload(context.keyring, {
        publicUrl: context.publicUrl(),
        fileId,
        expiresAtSeconds: fileUrlExpiry(nowMs),
      })
    const state = stateBody[family.body](job, outputBody(job, offer, fileUrl), defaultCurrency)
    const message = errorMessageOf(job)
    const body = {
      ...state,
      ...(message !== null && { error_message: message }),
      ...(job.progress !== null && { progress: progressBody(job.progress) }),
    }
    if (!isFinished(job)) return jsonReply(200, body, { "retry-after": "2" })
    if (retry === undefined) return jsonReply(200, body)
    return jsonReply(200, body, { link: `<${jobUrl(context, family, retry)}>; rel="latest-version"` })
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

type Body = (job: PolledJob, output: JsonObject | undefined, defaultCurrency: string) => object

/** The state of a polled job, with billing and codes; a code is `null` if it does not apply. */
const fullBody: Body = (job, output, defaultCurrency) => ({
  id: job.id,
  status: job.status,
  ...(output !== undefined && { output }),
  billing: billingBody(billingOf(job, defaultCurrency)),
  warning_code: job.warningCode,
  error_code: job.errorCode,
})

const billingBody = ({ amount, currency, lineItems, status }: Billing) => ({
  status,
  currency,
  amount,
  line_items: lineItems.map((item) => ({
    meter: item.meter,
    quantity: item.quantity,
    unit_amount: item.unitAmount,
    amount: item.amount,
  })),
})

/** Omits fields that do not apply. */
const briefBody: Body = (job, output) => ({
  id: job.id,
  status: job.status,
  ...(output !== undefined && { output }),
  ...(job.errorCode !== null && { error_code: job.errorCode }),
  ...(job.retained !== "kept" && { warning_code: job.warningCode }),
})

/** Returns the body of a polled job; its output is absent until it is done. */
const stateBody: Readonly<Record<JobBody, Body>> = { full: fullBody, brief: briefBody }

/** The progress of a running job of a custom kind. */
const progressBody = ({ message, value }: Progress) => ({ value, message })

/**
 * Returns a job's output on the wire, with a URL under `<name>_url` for each file. Absent until the job is done, and again once
 * its data is gone.
 */
const outputBody = (
  job: PolledJob,
  { names, outputs }: Pick<OfferedKind, "names" | "outputs">,
  fileUrl: (fileId: string) => string,
): JsonObject | undefined => {
  if (job.status !== "done" || job.retained !== "kept" || job.output === null) return undefined
  const entries: Array<readonly [string, JsonObject[string]]> = []
  for (const [name, value] of Object.entries(job.output))
    if (outputs === undefined || outputs.has(name)) entries.push([names.toWire(name), value])
  for (const { id, name } of job.files) entries.push([`${names.toWire(name)}_url`, fileUrl(id)])
  // Not by assignment: `__proto__` is a name like any other.
  return Object.fromEntries(entries)
}

/** Longest wait in seconds that a poll is held for. */
const mostWaitSeconds = 30

const WAIT = /^wait\s*=\s*(?:([0-9]{1,9})|"([0-9]{1,9})")\s*(?:;.*)?$/i

/**
 * Returns the seconds of the preference `wait` in `Prefer` (RFC 7240), at most 30; `undefined` without a valid one. Only the first
 * `wait` counts, and other preferences are ignored.
 */
export const preferredWait = (values: ReadonlyArray<string> | undefined): number | undefined => {
  if (values === undefined) return undefined
  const first = values
    .join(",")
    .slice(0, 1_024)
    .split(",")
    .map((preference) => preference.trim())
    .find((preference) => /^wait\s*(?:[=;]|$)/i.test(preference))
  const [, token, quoted] = first === undefined ? [] : (WAIT.exec(first) ?? [])
  const seconds = token ?? quoted
  return seconds === undefined ? undefined : Math.min(Number(seconds), mostWaitSeconds)
}
