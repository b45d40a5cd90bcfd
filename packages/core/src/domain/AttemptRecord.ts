import type { ErrorCode } from "./ErrorCode.ts"
import { isError, readSafely } from "./givenValues.ts"

/** Number of records that a store keeps of a job: those of its newest failed attempts. */
export const maxAttemptRecords = 20

/** Maximum size of `message` and `stack` together, in bytes of UTF-8. */
export const maxAttemptRecordBytes = 8 * 1_024

/** Maximum size of `message`, in bytes of UTF-8. */
const maxMessageBytes = 2 * 1_024

/** Maximum number of causes of an error whose stacks are kept below its own. */
const maxCauses = 5

/**
 * A worker's report about a failed attempt. Messages and stacks of foreign code may quote a request: they are for operators,
 * never for callers, and are erased with the job's data.
 */
export interface AttemptRecord {
  readonly errorCode: ErrorCode
  readonly message: string
  /** The stack of the error and of its causes; `null` for a value that is not an error. */
  readonly stack: string | null
  /** Duration of the attempt, in whole milliseconds. */
  readonly durationMs: number
  /** The name of the worker's process: host and process id. */
  readonly worker: string
}

/** A failed attempt, as a store keeps it. */
export interface FailedAttempt extends AttemptRecord {
  /** The attempt's number, from 1. */
  readonly number: number
  /** When the attempt began: the store time of its end minus its duration, in unix milliseconds. */
  readonly startedAt: number
}

/** Returns the record of an attempt that threw `error`. `durationMs` is rounded; the texts are cut to `maxAttemptRecordBytes`. */
export const attemptRecord = (
  error: unknown,
  { durationMs, ...about }: Pick<AttemptRecord, "errorCode" | "durationMs" | "worker">,
): AttemptRecord => {
  const message = bounded(readSafely(() => messageOf(error)) ?? "", maxMessageBytes)
  const stack = readSafely(() => stackOf(error))
  return {
    ...about,
    message,
    stack: stack === undefined ? null : bounded(stack, maxAttemptRecordBytes - encoder.encode(message).length),
    durationMs: Math.max(0, Math.round(durationMs)),
  }
}

/** Returns the failed attempt of a record that the store writes at `now`. */
export const failedAttempt = (record: AttemptRecord, number: number, now: number): FailedAttempt => ({
  number,
  errorCode: record.errorCode,
  message: record.message,
  stack: record.stack,
  startedAt: now - record.durationMs,
  durationMs: record.durationMs,
  worker: record.worker,
})

/** Returns the message of a thrown value, or what comes closest to one. May throw for a value that cannot be read. */
export const messageOf = (error: unknown): string => {
  if (!isError(error)) return typeof error === "string" ? error : (JSON.stringify(error) ?? String(error))
  const { detail, message, name }: { readonly detail?: unknown; readonly message: unknown; readonly name: unknown } =
    error
  return ([message, detail, name].find((text) => typeof text === "string" && text !== "") as string | undefined) ?? ""
}

const stackOf = (error: unknown): string | undefined => {
  if (!isError(error)) return undefined
  const stacks: Array<string> = []
  let next: unknown = error
  while (isError(next) && stacks.length <= maxCauses) {
    stacks.push(typeof next.stack === "string" && next.stack !== "" ? next.stack : messageOf(next))
    next = next.cause
  }
  return stacks.join("\ncaused by: ")
}

const encoder = new TextEncoder()

/** Cuts a text to a number of bytes, between characters, and replaces what a store cannot keep. */
const bounded = (text: string, maxBytes: number): string => {
  const storable = text.slice(0, maxBytes).toWellFormed().replaceAll("\u0000", "\ufffd")
  return storable.slice(0, encoder.encodeInto(storable, new Uint8Array(maxBytes)).read)
}
