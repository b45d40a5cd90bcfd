import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import {
  authorize,
  type Gate,
  type Grant,
  isId,
  type JobId,
  type JsonObject,
  priorities,
  type Priority,
  type UploadId,
} from "../domain/index.ts"
import { InvalidRequest } from "../domain/Errors.ts"
import { unknownUploadId } from "../domain/Ids.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { IdGenerator, type NewJob } from "../ports/index.ts"
import { EngineConfig, type EngineSettings } from "./EngineConfig.ts"
import { Fingerprint } from "./Fingerprint.ts"

/** How a job stands in line, and whether a live one requires a worker. */
export interface Placement {
  /** Default `normal`. */
  readonly priority?: Priority | undefined
  /** Milliseconds before which it is not begun, default 0; at most a year. */
  readonly delayMs?: number | undefined
  /** Overrides the setting of the same name for this job. */
  readonly requireLiveWorker?: boolean | undefined
}

const maxDelayMs = 366 * 24 * 3_600_000

/** What a job is made of once its request was read. */
export interface Draft {
  readonly grant: Grant
  readonly kind: JobKind
  readonly stored: JsonObject
  readonly idempotencyKey: string
  readonly placement: Placement
}

/** Reads a request: a draft of a job, or `InvalidRequest`. A grant that does not cover the kind, or a senseless placement, is a defect. */
export const readDraft = (
  grant: Grant,
  kind: JobKind,
  input: unknown,
  idempotencyKey: string,
  placement: Placement = {},
): Result.Result<Draft, InvalidRequest> => {
  if (authorize(grant, kind.keyScope) === undefined)
    throw new Error(`the grant does not cover ${kind.keyScope}, which ${kind.name} needs`)
  const { delayMs = 0, priority = "normal" } = placement
  if (!(delayMs >= 0 && delayMs <= maxDelayMs))
    throw new TypeError(`a job may be delayed by 0 to ${maxDelayMs} ms, not ${delayMs}`)
  if (!priorities.includes(priority)) throw new TypeError(`a priority is one of ${priorities.join(", ")}`)
  const request = kind.reader.read(input)
  if (Result.isFailure(request)) return Result.fail(new InvalidRequest({ errors: request.failure }))
  return Result.succeed({ grant, kind, stored: request.success.stored, idempotencyKey, placement })
}

/** The upload that a request names. What is not an identifier is looked up as one that does not exist. */
const uploadOf = ({ upload }: JobKind, stored: JsonObject): UploadId | null => {
  const uploadId = upload === undefined ? undefined : stored[upload]
  if (uploadId === undefined || uploadId === null) return null
  return typeof uploadId === "string" && isId("upl", uploadId) ? uploadId : unknownUploadId
}

/** The gate of a live job. A kind that can run without provider ports never requires a worker. */
const gateOf = ({ gate, name, providers }: JobKind, requireLiveWorker: boolean, withinMs: number): Gate => ({
  ...gate,
  liveWorker: requireLiveWorker && providers.every((ports) => ports.length > 0) ? { kind: name, withinMs } : null,
})

/** The job a draft becomes. */
export const newJobOf = (
  { grant, idempotencyKey, kind, placement, stored }: Draft,
  config: EngineSettings,
  made: { readonly id: JobId; readonly fingerprint: string },
): NewJob => {
  const jobLimits = {
    queueLimitMs: kind.limits.queueLimitMs ?? config.queueLimitMs,
    runLimitMs: kind.limits.runLimitMs ?? config.runLimitMs,
  }
  const requireLiveWorker = placement.requireLiveWorker ?? config.requireLiveWorker
  return {
    ...made,
    projectId: grant.projectId,
    keyId: grant.keyId,
    mode: grant.mode,
    kind: kind.name,
    kindVersion: kind.version,
    request: stored,
    kept: Object.fromEntries(Object.entries(stored).filter(([name]) => kind.keeps.includes(name))),
    priority: placement.priority ?? "normal",
    delayMs: Math.ceil(placement.delayMs ?? 0),
    retryOf: null,
    uploadId: uploadOf(kind, stored),
    maxTransfers: config.upload.maxTransfers,
    idempotencyKey,
    gate: grant.mode === "live" ? gateOf(kind, requireLiveWorker, jobLimits.queueLimitMs) : null,
    forcedOff: config.forcedOff,
    limits: jobLimits,
    queueCap: config.queueCap,
  }
}

/** The same, with an identifier and a fingerprint made for it. */
export const prepareJob = Effect.fnUntraced(function* (draft: Draft) {
  const config = yield* EngineConfig
  const ids = yield* IdGenerator
  const fingerprint = yield* Fingerprint
  return newJobOf(draft, config, {
    id: yield* ids.next("job"),
    fingerprint: yield* fingerprint.of(draft.kind.name, draft.stored),
  })
})
