import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { JobNotFound, RequestsHidden } from "../domain/Errors.ts"
import { isId } from "../domain/index.ts"
import { type AuditChange, AuditLog, JobDirectory } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"

/** Returns a job of any project, for callers that may see all of them. */
export const readJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const directory = yield* JobDirectory
  const [job] = yield* directory.readJobs([jobId])
  return job ?? (yield* Effect.fail(new JobNotFound()))
})

/** The person or program that looks, for the audit log. */
export type Observer = Pick<AuditChange, "actor" | "origin">

/** Fails unless the settings let operators read requests. */
export const requireVisibleRequests: Effect.Effect<void, RequestsHidden> = Effect.flatMap(
  EngineConfig,
  ({ operatorSeesRequests }) => (operatorSeesRequests ? Effect.void : Effect.fail(new RequestsHidden())),
)

/** Records that somebody looks at something. A store without an audit log records nothing. */
export const recordLook = (observer: Observer, look: Omit<AuditChange, keyof Observer>) =>
  Effect.flatMap(Effect.serviceOption(AuditLog), (log) =>
    Option.isNone(log) ? Effect.void : log.value.append({ ...look, ...observer }),
  )

/** Returns the request of a job of any project, after the look is recorded; `null` once its data is gone. */
export const readRequest = Effect.fnUntraced(function* (jobId: string, observer: Observer) {
  yield* requireVisibleRequests
  const job = yield* readJob(jobId)
  yield* recordLook(observer, { action: "job.read-request", subject: job.id, details: {} })
  return job.request
})
