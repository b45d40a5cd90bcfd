import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type JsonObject, type Priority, readPriority } from "@kiln/core/domain"
import { type AuditChange, audited, type AuditedVerb, type CreateOutcome } from "@kiln/core/ports"
import { maxDelayMs, Operator, type RetryOptions } from "@kiln/core/effect"
import type { InputOf } from "../api/index.ts"
import { type ApiError, refuse } from "./ApiError.ts"
import type { Caller } from "./Caller.ts"
import { momentOf } from "./jobFields.ts"

/** Records a change under the caller's name, in the transaction that makes it. */
export const recorded =
  (
    caller: Caller,
    action: string,
    subject: string,
    options: {
      readonly details?: JsonObject
      readonly changed?: AuditedVerb["changed"]
      readonly detailsOf?: AuditedVerb["detailsOf"]
    } = {},
  ) =>
  <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const change: AuditChange = {
      actor: caller.name,
      origin: caller.origin,
      action,
      subject,
      details: options.details ?? {},
    }
    return audited(change, operation, options.changed, options.detailsOf)
  }

/** For verbs without an answer. */
export const always: AuditedVerb["changed"] = () => true

/** Whether the answer for the first item of a batch has this tag. */
const firstIs =
  (tag: string): AuditedVerb["changed"] =>
  (answer) => {
    const first: unknown = Array.isArray(answer) ? answer[0] : answer
    return first === tag || (typeof first === "object" && first !== null && Reflect.get(first, "_tag") === tag)
  }

/** The job that was created, in the answer of the store. */
const newJobAs =
  (field: "retried_as" | "job_id") =>
  (outcomes: unknown): JsonObject => {
    const [outcome] = outcomes as ReadonlyArray<CreateOutcome>
    return outcome?._tag === "Created" ? { [field]: outcome.job.id } : {}
  }

export const cancel = (id: string, caller: Caller) =>
  Effect.flatMap(Operator, (operator) =>
    operator.cancel(id).pipe(recorded(caller, "job.cancel", id, { changed: firstIs("Canceled") })),
  )

export const promote = (id: string, caller: Caller) =>
  Effect.flatMap(Operator, (operator) =>
    operator.promote(id).pipe(recorded(caller, "job.promote", id, { changed: firstIs("Rescheduled") })),
  )

type Retried = ReturnType<Operator["Service"]["retry"]>

export const retry = (
  id: string,
  caller: Caller,
  options: RetryOptions = {},
): Effect.Effect<Effect.Success<Retried>, Effect.Error<Retried>, Operator> =>
  Effect.flatMap(Operator, (operator) =>
    operator.retry(id, options).pipe(
      recorded(caller, "job.retry", id, {
        details: options.request === undefined ? {} : { request_changed: true },
        changed: firstIs("Created"),
        detailsOf: newJobAs("retried_as"),
      }),
    ),
  )

type Rescheduled = ReturnType<Operator["Service"]["promote"]>

/** Tells whether the start of a job was changed, or why not. */
const startAnswer = (change: Effect.Effect<boolean, Effect.Error<Rescheduled>, Operator>) =>
  change.pipe(
    Effect.map((changed) => ({ changed })),
    Effect.catchTags({
      JobNotFound: () => Effect.fail(refuse("not_found", "there is no such job")),
      JobFinished: () => Effect.fail(refuse("job_finished")),
      JobNotWaiting: ({ message }) => Effect.fail(refuse("job_not_waiting", message)),
    }),
  )

export const promoteJob = ({ id }: InputOf<"promoteJob">, caller: Caller) => startAnswer(promote(id, caller))

const priorityGiven = (given: string | number | undefined): Effect.Effect<Priority | undefined, ApiError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(given === undefined ? undefined : readPriority(given as Priority))
    } catch (error) {
      return Effect.fail(refuse("invalid_request", (error as TypeError).message))
    }
  })

export const rescheduleJob = Effect.fnUntraced(function* ({ id, payload }: InputOf<"rescheduleJob">, caller: Caller) {
  const runAt = yield* momentOf("run_at", payload.run_at)
  const delayMs = runAt === undefined ? undefined : Math.max(0, runAt - (yield* Clock.currentTimeMillis))
  if (delayMs !== undefined && delayMs > maxDelayMs)
    return yield* Effect.fail(refuse("invalid_request", "run_at must be at most 366 days from now"))
  const priority = yield* priorityGiven(payload.priority)
  if (delayMs === undefined && priority === undefined)
    return yield* Effect.fail(refuse("invalid_request", "give run_at, priority or both"))
  const operator = yield* Operator
  const details = {
    ...(delayMs !== undefined && { delay_seconds: Math.ceil(delayMs / 1_000) }),
    ...(priority !== undefined && { priority }),
  }
  const change = recorded(caller, "job.reschedule", id, { details, changed: firstIs("Rescheduled") })
  return yield* startAnswer(change(operator.reschedule(id, { delayMs, priority })))
})

export const cancelJob = ({ id }: InputOf<"cancelJob">, caller: Caller) =>
  cancel(id, caller).pipe(
    Effect.as({ changed: true }),
    Effect.catchTags({
      JobNotFound: () => Effect.fail(refuse("not_found", "there is no such job")),
      JobFinished: () => Effect.fail(refuse("job_finished")),
    }),
  )

export const retryJob = ({ id, payload }: InputOf<"retryJob">, caller: Caller) =>
  retry(id, caller, payload).pipe(
    Effect.map(({ job, replayed }) => ({ job_id: job.id as string, replayed })),
    Effect.mapError((error) => {
      switch (error._tag) {
        case "StoreUnavailable":
          return error
        case "JobNotFound":
          return refuse("not_found", "there is no such job")
        case "InvalidRequest":
          return refuse("invalid_request", error.message)
        default:
          return refuse("job_not_retryable", error.message)
      }
    }),
  )

export const runSchedule = Effect.fnUntraced(function* ({ id }: InputOf<"runSchedule">, caller: Caller) {
  const operator = yield* Operator
  const accepted = yield* operator.runSchedule(id).pipe(
    recorded(caller, "schedule.run", id, { changed: firstIs("Created"), detailsOf: newJobAs("job_id") }),
    Effect.mapError((error) => (error._tag === "StoreUnavailable" ? error : refuse("refused", error.message))),
  )
  if (accepted === undefined) return yield* Effect.fail(refuse("not_found", "there is no such schedule"))
  return { job_id: accepted.job.id, deduplicated: accepted.deduplicated ?? false }
})
