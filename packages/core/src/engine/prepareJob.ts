import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type { JobTick } from "../domain/acceptance.ts"
import type { Usage } from "../domain/Billing.ts"
import { InvalidRequest } from "../domain/Errors.ts"
import type { Gate } from "../domain/Gate.ts"
import { isDate, isPlainObject } from "../domain/givenValues.ts"
import { keylessFingerprint, keylessKey, unknownUploadId } from "../domain/Ids.ts"
import {
  authorize,
  type FieldError,
  type Grant,
  isId,
  type JobId,
  type Json,
  type JsonObject,
  limits,
  type Priority,
  type StoreUnavailable,
  type UploadId,
  withSubmitted,
} from "../domain/index.ts"
import { canonicalJson, withDelivery } from "../domain/rules.ts"
import type { PriorityName } from "../domain/Priority.ts"
import { type JobTrace, type Submitted, type Unique, withTrace, withUnique } from "../domain/JobMetadata.ts"
import { readPriority } from "../domain/Priority.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { IdGenerator, type NewJob, SecretStore } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"
import type { EngineSettings } from "./EngineSettings.ts"
import { FinishHandlers } from "./FinishHandlers.ts"

/** The part of `node:crypto` that is used here. */
interface NodeCrypto {
  readonly createSecretKey: (key: Uint8Array) => object
  readonly createHmac: (
    algorithm: "sha256",
    key: object,
  ) => { readonly update: (message: string, encoding: "utf8") => { readonly digest: (encoding: "hex") => string } }
}

/** Runtimes with Node's built-in modules: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:crypto") => NodeCrypto | undefined
}

/**
 * Returns HMAC-SHA-256 with this key, of texts as UTF-8, in hex. It is synchronous: Web Crypto answers from another thread, which
 * takes several times as long for a short text. Throws `TypeError` if the runtime has no `node:crypto`, which is looked up here and
 * not imported, so that the rest of the package runs without Node.
 */
export const hmacSha256 = (key: Uint8Array): ((message: string) => string) => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const crypto = process?.getBuiltinModule?.("node:crypto")
  if (crypto === undefined) throw new TypeError("the engine needs node:crypto, which this runtime does not have")
  // Parsed once: `createHmac` with raw bytes takes ten times as long.
  const secret = crypto.createSecretKey(key)
  return (message) => crypto.createHmac("sha256", secret).update(message, "utf8").digest("hex")
}

/** The name of the secret with the key of fingerprints. Every engine has it, and it never changes. */
export const fingerprintSecret = "fingerprint"

/** Tells a repeated request from another one without keeping the request: a keyed digest. */
export class Fingerprint extends Context.Service<
  Fingerprint,
  {
    /**
     * Lower-case hex. Requests that differ only in key order, white space or the spelling of numbers have the same one. `canonical` is
     * the canonical text of the request, for callers that have it.
     */
    readonly of: (kind: string, request: JsonObject, canonical?: string) => string
  }
>()("@kiln/core/engine/Fingerprint") {
  /** The key is made once and lives in the store, apart from signing keys, and is never rotated. */
  static readonly layer: Layer.Layer<Fingerprint, StoreUnavailable, SecretStore | SecureRandom.SecureRandom> =
    Layer.effect(
      Fingerprint,
      Effect.gen(function* () {
        const random = yield* SecureRandom.SecureRandom
        const secrets = yield* SecretStore
        const digest = hmacSha256(yield* secrets.getOrCreate(fingerprintSecret, yield* random.randomBytes(32)))
        return Fingerprint.of({
          of: (kind, request, canonical = canonicalJson(request)) => digest(`${kind}\n${canonical}`),
        })
      }),
    )
}

/** When a job is run relative to others, what is attached to it, and whether a live one requires a worker. */
export interface Placement {
  /** The job's id, if the caller has told it already. */
  readonly id?: JobId | undefined
  /** A name, or an integer from -5 to 5. Default `normal`. */
  readonly priority?: PriorityName | number | undefined
  /** Milliseconds before which the job does not start, default 0; at most 366 days. */
  readonly delayMs?: number | undefined
  /** Overrides the setting of the same name for this job. */
  readonly requireLiveWorker?: boolean | undefined
  /** Tags, metadata and context of the caller. */
  readonly submitted?: Submitted | undefined
  /** Accepts the job only if no other one has its scope. */
  readonly unique?: UniqueBy | undefined
  /** Compared instead of the request when an idempotency key is repeated, for requests that name a new upload each time. */
  readonly comparedAs?: string | undefined
  /** The queue cap does not apply: the job is a part of one that was accepted. */
  readonly uncapped?: boolean | undefined
  /** The tick of a schedule that the job is for. */
  readonly tick?: JobTick | undefined
  /** The failed job whose upload the job takes over. */
  readonly retryOf?: JobId | undefined
}

/** Which jobs of one key, mode and kind count as the same, and for how long. */
export interface UniqueBy {
  /** A text of the caller's, or names of request fields whose values are compared; without it, the whole request is. */
  readonly by?: string | ReadonlyArray<string> | undefined
  readonly while: Unique["while"]
  /** What happens to the waiting job that counts as the same; by default nothing. Needs `while: "queued"`. */
  readonly onDuplicate?: OnDuplicate | undefined
}

/** `extend`: the delay of the waiting job begins again. `replace`: the same, and it gets the request of the new submission. */
export type OnDuplicate = "extend" | "replace"

/** The longest delay of a job. */
export const maxDelayMs = 366 * 24 * 3_600_000

/** A request for a job. */
export interface JobRequest {
  readonly grant: Grant
  readonly kind: JobKind
  readonly request: unknown
  /** Without one, every request makes a job. */
  readonly idempotencyKey: string | undefined
  readonly placement?: Placement | undefined
}

/** A request for a job, once it was read and found valid. */
export interface Draft {
  readonly grant: Grant
  readonly kind: JobKind
  readonly stored: JsonObject
  /** The canonical text of `stored`. */
  readonly canonical: string
  /** The request as its schema returns it, with defaults and transforms: what an attempt gets. */
  readonly value: unknown
  /** The most that a live job can use, by meter; `null` if that is unknown or does not matter. */
  readonly maxUsage: Usage | null
  readonly idempotencyKey: string | undefined
  readonly priority: Priority
  readonly placement: Placement
}

/**
 * Reads a request: returns a draft, or fails with `InvalidRequest`. Throws for a grant that does not cover the kind, a delay out
 * of range, an unknown priority, and prerequisites of a request that may replace another.
 */
export const readDraft = ({
  grant,
  idempotencyKey,
  kind,
  placement = {},
  request: input,
}: JobRequest): Result.Result<Draft, InvalidRequest> => {
  if (authorize(grant, kind.keyScope) === undefined)
    throw new Error(`the grant does not cover ${kind.keyScope}, which ${kind.name} needs`)
  const { delayMs = 0 } = placement
  if (!(delayMs >= 0 && delayMs <= maxDelayMs))
    throw new TypeError(`delayMs must be a number from 0 to ${maxDelayMs}, not ${delayMs}`)
  // The jobs it names may start after the waiting job already, and each would wait for the other.
  if (placement.unique?.onDuplicate === "replace" && (placement.submitted?.after ?? []).length > 0)
    throw new TypeError('after does not work with unique.onDuplicate "replace": leave one of them out')
  const priority = readPriority(placement.priority ?? "normal")
  const request = kind.reader.read(input)
  if (Result.isFailure(request)) return Result.fail(new InvalidRequest({ errors: request.failure }))
  const { canonical, stored, value } = request.success
  if (canonical.length > limits.kindJsonLength)
    return Result.fail(new InvalidRequest({ errors: [tooLong(canonical.length)] }))
  const maxUsage = grant.mode === "live" && kind.gate.price !== null ? kind.maxUsage(value) : null
  return Result.succeed({ grant, kind, stored, canonical, value, maxUsage, idempotencyKey, priority, placement })
}

const tooLong = (length: number): FieldError => ({
  field: "",
  reason: "max_length",
  message: `must have at most ${limits.kindJsonLength} characters of JSON, and has ${length}: submit a reference to larger data`,
})

/** The upload that a request names. A malformed identifier is looked up as one that does not exist. */
const uploadOf = ({ upload }: JobKind, stored: JsonObject): UploadId | null => {
  const uploadId = upload === undefined ? undefined : stored[upload]
  if (uploadId === undefined || uploadId === null) return null
  return typeof uploadId === "string" && isId("upl", uploadId) ? uploadId : unknownUploadId
}

/** The fields of the request that become the metadata of the job. */
const metadataOf = ({ metadata }: JobKind, stored: JsonObject): JsonObject =>
  metadata.length === 0 ? {} : Object.fromEntries(Object.entries(stored).filter(([name]) => metadata.includes(name)))

/** The gate of a live job. A kind that can run without provider ports never requires a worker. */
const gateOf = ({ gate, name, providers }: JobKind, requireLiveWorker: boolean, withinMs: number): Gate => ({
  ...gate,
  liveWorker: requireLiveWorker && providers.every((ports) => ports.length > 0) ? { kind: name, withinMs } : null,
})

/** A digest, so that no text of a request is kept. */
const uniqueFor = (
  draft: Draft,
  { by, onDuplicate, while: duration }: UniqueBy,
  fingerprint: Fingerprint["Service"],
): Unique => {
  const { keyId, mode } = draft.grant
  const compared =
    by === undefined
      ? { request: comparedRequest(draft) }
      : typeof by === "string"
        ? { text: by }
        : { fields: pick(draft, by) }
  const scope = fingerprint.of("unique", { keyId, mode, kind: draft.kind.name, ...compared })
  return { scope, while: duration, ...(onDuplicate === "replace" && { replaces: true }) }
}

/** Requests are compared as their schema reads them: a field that is left out equals its default. */
const comparedRequest = ({ stored, value }: Draft): Json => asComparable(value) ?? stored

const pick = ({ stored, value }: Draft, names: ReadonlyArray<string>): JsonObject => {
  const read = isPlainObject(value) ? value : {}
  const fieldOf = (name: string): Json => {
    const field = Object.hasOwn(read, name) ? asComparable(read[name]) : undefined
    if (field !== undefined) return field
    return Object.hasOwn(stored, name) ? (stored[name] ?? null) : null
  }
  return Object.fromEntries(names.map((name) => [name, fieldOf(name)]))
}

/** Returns a value as JSON, with dates as texts; `undefined` for what JSON cannot tell apart, such as sets. */
const asComparable = (value: unknown): Json | undefined => {
  if (isDate(value)) return Number.isNaN(value.getTime()) ? undefined : value.toISOString()
  if (value === null || typeof value === "string" || typeof value === "boolean") return value
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined
  const items = Array.isArray(value) ? value.map(asComparable) : undefined
  if (items !== undefined) return items.every((item) => item !== undefined) ? items : undefined
  if (!isPlainObject(value)) return undefined
  const fields = Object.entries(value).flatMap(([name, field]) =>
    field === undefined ? [] : [[name, asComparable(field)] as const],
  )
  return fields.every(([, field]) => field !== undefined) ? (Object.fromEntries(fields) as JsonObject) : undefined
}

const newJobOf = (
  { grant, idempotencyKey, kind, maxUsage, placement, priority, stored }: Draft,
  config: EngineSettings,
  { fingerprint, id, unique }: Pick<NewJob, "id" | "fingerprint" | "unique">,
  trace: JobTrace | undefined,
): NewJob => {
  const jobLimits = {
    queueLimitMs: kind.limits.queueLimitMs ?? config.queueLimitMs,
    runLimitMs: kind.limits.runLimitMs ?? config.runLimitMs,
  }
  const requireLiveWorker = placement.requireLiveWorker ?? config.requireLiveWorker
  const job: NewJob = {
    id,
    fingerprint,
    projectId: grant.projectId,
    keyId: grant.keyId,
    mode: grant.mode,
    kind: kind.name,
    kindVersion: kind.version,
    request: stored,
    metadata: withUnique(withTrace(withSubmitted(metadataOf(kind, stored), placement.submitted), trace), unique),
    priority,
    delayMs: Math.ceil(placement.delayMs ?? 0),
    retryOf: placement.retryOf ?? null,
    uploadId: uploadOf(kind, stored),
    maxTransfers: config.upload.maxTransfers,
    idempotencyKey: idempotencyKey ?? keylessKey(id),
    gate: grant.mode === "live" ? gateOf(kind, requireLiveWorker, jobLimits.queueLimitMs) : null,
    maxUsage,
    forcedOff: config.forcedOff,
    limits: jobLimits,
    // Only jobs with files add to what the project keeps. What a child writes was accepted with its parent.
    storageCap: kind.files.length === 0 || placement.uncapped === true ? 0 : config.storageCap[grant.mode],
    queueCap: placement.uncapped === true ? 0 : config.queueCap,
  }
  // Most jobs have neither, and an object of one shape is made several times faster than one with spread parts.
  return unique === undefined && placement.tick === undefined
    ? job
    : { ...job, ...(unique && { unique }), ...(placement.tick && { tick: placement.tick }) }
}

/** Nothing is compared with the request of a job without an idempotency key, so it needs no digest. */
const fingerprintOf = (
  { canonical, idempotencyKey, kind, placement: { comparedAs }, stored }: Draft,
  fingerprint: Fingerprint["Service"],
): string => {
  if (idempotencyKey === undefined) return keylessFingerprint
  return comparedAs === undefined
    ? fingerprint.of(kind.name, stored, canonical)
    : fingerprint.of(kind.name, { text: comparedAs })
}

/** Completes a draft with an identifier and a fingerprint, and with the trace of its request. */
export type PrepareJob = (draft: Draft, trace?: JobTrace) => NewJob

export const makePrepareJob: Effect.Effect<PrepareJob, never, IdGenerator | Fingerprint> = Effect.gen(function* () {
  const config = yield* EngineConfig
  const ids = yield* IdGenerator
  const fingerprint = yield* Fingerprint
  const handlers = yield* FinishHandlers
  return (draft, trace) => {
    const job = newJobOf(
      draft,
      config,
      {
        id: draft.placement.id ?? ids.next("job"),
        fingerprint: fingerprintOf(draft, fingerprint),
        ...(draft.placement.unique && { unique: uniqueFor(draft, draft.placement.unique, fingerprint) }),
      },
      trace,
    )
    return handlers.has(job.kind) ? { ...job, metadata: withDelivery(job.metadata) } : job
  }
})

/** Returns the trace to store with a job that this fiber creates; `undefined` without a tracer. */
export const traceIn = (fiber: Fiber.Fiber<unknown, unknown>): JobTrace | undefined =>
  fiber.cache.tracer === undefined ? undefined : fiber.cache.span
