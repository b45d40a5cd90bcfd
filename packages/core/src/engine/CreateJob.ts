import { Effect, Result } from "effect"
import { authorize, type Grant, type Job, type JsonObject, type UploadRefusal } from "../domain/index.ts"
import { decodeFields } from "../kinds/decodeFields.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { IdGenerator, JobStore, WakeUp } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"
import {
  IdempotencyKeyReused,
  InvalidRequest,
  LiveNotActive,
  QueueFull,
  UploadAlreadyUsed,
  UploadExpired,
  UploadNotFound,
  UploadNotReady,
} from "./errors.ts"
import { Fingerprint } from "./Fingerprint.ts"

/** An accepted job: a new one, or the one this idempotency key already made. */
export interface Accepted {
  readonly job: Job
  readonly replayed: boolean
}

const uploadRefused: Record<UploadRefusal, () => UploadNotFound | UploadNotReady | UploadAlreadyUsed | UploadExpired> =
  {
    not_found: () => new UploadNotFound(),
    not_ready: () => new UploadNotReady(),
    already_used: () => new UploadAlreadyUsed(),
    expired: () => new UploadExpired(),
  }

/**
 * Accepts a job, exactly once per key record and idempotency key. When it returns, the job
 * survives any crash. Fields are checked here; everything after them, in the order replay, live
 * prerequisites, upload, queue cap, in one step of the store.
 */
export const createJob = Effect.fnUntraced(function* <Request extends JsonObject>(
  grant: Grant,
  kind: JobKind<string, Request>,
  input: unknown,
  idempotencyKey: string,
) {
  if (authorize(grant, kind.keyScope) === undefined)
    return yield* Effect.die(new Error(`the grant does not cover ${kind.keyScope}, which ${kind.name} needs`))
  const config = yield* EngineConfig
  const ids = yield* IdGenerator
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  const fingerprint = yield* Fingerprint
  const request = decodeFields(kind.request, input)
  if (Result.isFailure(request)) return yield* new InvalidRequest({ errors: request.failure })
  const [outcome] = yield* store.createJobs([
    {
      id: yield* ids.next("job"),
      projectId: grant.projectId,
      keyId: grant.keyId,
      mode: grant.mode,
      kind: kind.name,
      kindVersion: kind.version,
      request: request.success,
      uploadId: kind.uploadOf(request.success),
      maxTransfers: config.upload.maxTransfers,
      idempotencyKey,
      fingerprint: yield* fingerprint.of(kind.name, request.success),
      gate: grant.mode === "live" ? kind.gate : null,
      forcedOff: config.forcedOff,
      limits: { queueLimitMs: config.queueLimitMs, runLimitMs: config.runLimitMs },
      queueCap: config.queueCap,
    },
  ])
  switch (outcome?._tag) {
    case "Created":
      yield* wakeUp.notify
      return { job: outcome.job, replayed: false } satisfies Accepted
    case "Replayed":
      return { job: outcome.job, replayed: true } satisfies Accepted
    case "KeyReused":
      return yield* new IdempotencyKeyReused()
    case "GateClosed":
      return yield* new LiveNotActive({ missing: outcome.missing })
    case "UploadRefused":
      return yield* uploadRefused[outcome.reason]()
    case "QueueFull":
      return yield* new QueueFull()
    case undefined:
      return yield* Effect.die("the store answered none of the jobs it was given")
  }
})
