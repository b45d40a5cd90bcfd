import type { Job } from "./Job.ts"
import type { JsonObject } from "./Json.ts"

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
