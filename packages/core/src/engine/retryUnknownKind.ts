import * as Effect from "effect/Effect"
import { type Job, type JsonObject } from "../domain/index.ts"
import { withTrace, traceField, type JobTrace } from "../domain/JobTrace.ts"
import { type Submitted, submittedField, withSubmitted } from "../domain/Submitted.ts"
import { IdGenerator, type NewJob, Switchboard } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"

/** Metadata of the retry: without the trace of the failed job's submission. */
const metadataOf = (failed: Job, submitted: Submitted, trace: JobTrace | undefined): JsonObject => {
  const { [submittedField]: _submitted, [traceField]: _trace, ...fields } = failed.metadata
  return withTrace(withSubmitted(fields, submitted), trace)
}

/**
 * Returns the retry of a job whose kind this process does not know: the stored request, version, limits and price name, with the
 * switches that its running workers publish. What it may cost at most is unknown.
 */
export const retryUnknownKind = Effect.fnUntraced(function* (
  failed: Job & { readonly request: JsonObject },
  submitted: Submitted,
  idempotencyKey: string,
  trace: JobTrace | undefined,
): Effect.fn.Return<NewJob, Effect.Error<Switchboard["Service"]["listWorkers"]>, IdGenerator | Switchboard> {
  const { forcedOff, queueCap, upload } = yield* EngineConfig
  const workers = yield* (yield* Switchboard).listWorkers
  const served = workers.flatMap(({ scope }) => scope?.kinds.filter(({ kind }) => kind === failed.kind) ?? [])
  return {
    id: (yield* IdGenerator).next("job"),
    projectId: failed.projectId,
    keyId: failed.keyId,
    mode: failed.mode,
    kind: failed.kind,
    kindVersion: failed.kindVersion,
    request: failed.request,
    metadata: metadataOf(failed, submitted, trace),
    priority: failed.priority,
    delayMs: 0,
    retryOf: failed.id,
    uploadId: failed.uploadId,
    maxTransfers: upload.maxTransfers,
    idempotencyKey,
    fingerprint: failed.fingerprint,
    gate:
      failed.mode === "sandbox"
        ? null
        : {
            price: failed.price?.name ?? null,
            meters: Object.keys(failed.price?.unitAmounts ?? {}),
            switches: [...new Set(served.flatMap(({ switches }) => switches))],
            liveWorker: null,
          },
    maxUsage: null,
    forcedOff,
    limits: { queueLimitMs: failed.queueLimitMs, runLimitMs: failed.runLimitMs },
    // Its parent was accepted.
    queueCap: submitted.parent === undefined ? queueCap : 0,
  }
})
