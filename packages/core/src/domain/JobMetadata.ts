import { afterLabel, childLabel, type ParentStep, stepLabel } from "./Child.ts"
import { deliveryField } from "./Delivery.ts"
import type { JobId } from "./Ids.ts"
import type { Job } from "./Job.ts"
import type { Json, JsonObject } from "./givenValues.ts"
import type { SubmittedTick } from "./Schedule.ts"

/**
 * The name under which a job's metadata carries the trace that its request belongs to. No field of a request has this name:
 * a kind's `metadata` lists names of fields, and this one is reserved.
 */
export const traceField = "kiln:traceparent"

/** The span that a job was created in, in the format of W3C Trace Context. */
export interface JobTrace {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string
  /** 16 lower-case hexadecimal digits. */
  readonly spanId: string
  readonly sampled: boolean
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Parses a `traceparent`. `undefined` if it is malformed, or its version or one of its ids is invalid. */
export const parseTraceparent = (text: string): JobTrace | undefined => {
  const [, traceId = "", spanId = "", flags = "", rest = ""] = TRACEPARENT.exec(text) ?? []
  // Only later versions may have more fields.
  if (text.startsWith("ff") || (text.startsWith("00") && rest !== "")) return undefined
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

const formatTraceparent = ({ sampled, spanId, traceId }: JobTrace): string =>
  `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`

/** Adds a trace to the metadata of a new job. */
export const withTrace = (metadata: JsonObject, trace: JobTrace | undefined): JsonObject =>
  trace === undefined ? metadata : { ...metadata, [traceField]: formatTraceparent(trace) }

/** Returns the trace of the request that created a job, if it was traced. */
export const traceOf = ({ metadata }: Pick<Job, "metadata">): JobTrace | undefined => {
  const text = Object.hasOwn(metadata, traceField) ? metadata[traceField] : undefined
  return typeof text === "string" ? parseTraceparent(text) : undefined
}

/**
 * The name under which a job's metadata carries what its caller attached to it. No field of a request has this name, as with
 * `traceField`.
 */
export const submittedField = "kiln:submitted"

/** A value of attached metadata. Only values that can be compared exactly, because lists are filtered by them. */
export type MetadataValue = string | number | boolean

/** Labels that a caller attached to a job. It is not part of the request, and stays for as long as the record exists. */
export interface Submitted {
  readonly tags?: ReadonlyArray<string>
  readonly metadata?: Readonly<Record<string, MetadataValue>>
  /** For the attempts of the job. */
  readonly context?: Json
  /** The step that waits for this job. */
  readonly parent?: ParentStep
  /** The job's prerequisites: it starts once all of them have finished. */
  readonly after?: ReadonlyArray<JobId>
  /** Set if the job also runs after a prerequisite that failed. Without it, the job fails. */
  readonly afterFailure?: "run"
  /** Set on a retry that uses nothing of what the retried job had finished. */
  readonly fromStart?: true
  /** The fingerprint of the first job's request, on a retry with a changed one and on its retries. */
  readonly changedFrom?: string
  /** The tick of a schedule that the job is for. */
  readonly schedule?: SubmittedTick
}

/** Adds what a caller attached to the metadata of a new job. */
export const withSubmitted = (metadata: JsonObject, submitted: Submitted | undefined): JsonObject =>
  submitted === undefined || Object.keys(submitted).length === 0
    ? metadata
    : { ...metadata, [submittedField]: submitted as JsonObject }

const nothing: Submitted = Object.freeze({})

const fieldOf = (metadata: JsonObject): Submitted => {
  const field = Object.hasOwn(metadata, submittedField) ? metadata[submittedField] : undefined
  return typeof field === "object" && field !== null ? (field as Submitted) : nothing
}

/** Returns what the caller of a job attached to it. */
export const submittedOf = ({ metadata }: Pick<Job, "metadata">): Submitted => fieldOf(metadata)

/**
 * Returns the metadata of a request that replaces another: the job starts after the same jobs as before. The mark of a delivery stays
 * last.
 */
export const withPrerequisitesOf = (metadata: JsonObject, replaced: Pick<Job, "metadata">): JsonObject => {
  const { after, afterFailure } = submittedOf(replaced)
  if (after === undefined) return metadata
  const { [deliveryField]: mark, ...others } = metadata
  const { afterFailure: _, ...submitted } = fieldOf(metadata)
  const kept = withSubmitted(others, { ...submitted, after, ...(afterFailure !== undefined && { afterFailure }) })
  return mark === undefined ? kept : { ...kept, [deliveryField]: mark }
}

/** Returns the fingerprint of the request that a job was first asked with: an operator may have changed it for a retry. */
export const askedFingerprint = (job: Pick<Job, "fingerprint" | "metadata">): string =>
  submittedOf(job).changedFrom ?? job.fingerprint

/**
 * Makes a job the only one of its scope: while another one has the scope, that one is returned instead. The last accepted job has
 * it.
 */
export interface Unique {
  /** A digest of the key, the mode, the kind and what the caller named. */
  readonly scope: string
  /** The time for which a job keeps its scope: until it is claimed, until it has finished, or for milliseconds from its creation. */
  readonly while: "queued" | "unfinished" | number
  /**
   * A job that has the scope and waits for its first attempt gets the request of the new one, instead of being returned as it is. It keeps
   * its prerequisites. Needs `while: "queued"`. Not in a transaction of a caller's, which would keep workers from the job until it ends.
   */
  readonly replaces?: boolean | undefined
}

/** The name under which the metadata of a unique job carries its scope, for its retries. */
const uniqueField = "kiln:unique"

/** Keeps the scope of a new job. It comes first, because the mark of a delivery must stay last. */
export const withUnique = (metadata: JsonObject, unique: Unique | undefined): JsonObject =>
  unique === undefined ? metadata : { [uniqueField]: { scope: unique.scope, while: unique.while }, ...metadata }

/** Returns the scope that a job was accepted for, if it was to be the only one of it. Jobs of earlier versions do not have it. */
export const uniqueOf = ({ metadata }: Pick<Job, "metadata">): Unique | undefined => {
  const field = Object.hasOwn(metadata, uniqueField) ? metadata[uniqueField] : undefined
  if (typeof field !== "object" || field === null || Array.isArray(field)) return undefined
  const { scope, while: duration } = field as JsonObject
  const isKnown = duration === "queued" || duration === "unfinished" || typeof duration === "number"
  return typeof scope === "string" && isKnown ? { scope, while: duration } : undefined
}

/** The engine's own entries in the metadata of a job. */
const own = [traceField, submittedField, deliveryField, uniqueField]

/** Returns a job's metadata for its caller: the fields of the request that its kind keeps, and what was attached. */
export const callerMetadata = ({ metadata }: Pick<Job, "metadata">): JsonObject => {
  if (!own.some((field) => Object.hasOwn(metadata, field))) return metadata
  const { [traceField]: _t, [submittedField]: _s, [deliveryField]: _d, [uniqueField]: _u, ...fields } = metadata
  return { ...fields, ...fieldOf(metadata).metadata }
}

/** The labels of these tags, of each field of metadata with its value, of the parent, and of each prerequisite. */
export const labelsWith = ({ after = [], metadata = {}, parent, tags = [] }: Submitted): ReadonlyArray<string> => [
  ...new Set(tags.map((tag) => `#${tag}`)),
  ...Object.entries(metadata).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`),
  ...(parent === undefined ? [] : [childLabel(parent.jobId), stepLabel(parent)]),
  ...new Set(after.map(afterLabel)),
]

/** Maximum number of prerequisites of a job. */
export const maxPrerequisites = 100

/** The labels that stores find a new job by. Most jobs have none. */
export const labelsOf = (metadata: JsonObject): ReadonlyArray<string> =>
  Object.hasOwn(metadata, submittedField) ? labelsWith(fieldOf(metadata)) : []
