import { billingOf, errorMessageOf, type Job as StoredJob, progressOf, submittedOf } from "../domain/index.ts"
import { callerMetadata } from "../domain/JobMetadata.ts"
import { fieldOf } from "../providers/checks.ts"
import type { Progress } from "../domain/Progress.ts"
import type { Engine } from "../engine/index.ts"
import type { JobKind } from "../kinds/index.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import type { FileReference, JobReference, JobResult } from "./JobResult.ts"

const idIn = (thing: unknown, expected: string): string => {
  const id: unknown = typeof thing === "string" ? thing : fieldOf(thing, "id")
  if (typeof id === "string") return id
  const given = thing === null ? "null" : typeof thing === "object" ? "an object without id" : typeof thing
  const isPromise = typeof fieldOf(thing, "then") === "function"
  throw new TypeError(`expected ${expected}, not ${isPromise ? "a promise: await it" : given}`)
}

/** Returns the id of a job. Throws `TypeError` for anything else. */
export const idOf = (job: JobReference<string>): string => idIn(job, "a job or the id of a job")

/** Returns the id of a file. Throws `TypeError` for anything else. */
export const fileIdOf = (file: FileReference): string => {
  const id = idIn(file, "a file, such as job.output.audio, or the id of a file")
  if (id.startsWith("job_")) throw new TypeError("expected a file, such as job.output.audio, not the job itself")
  return id
}

/** Returns the id of an upload. Throws `TypeError` for anything else. */
export const uploadIdOf = (upload: string | { readonly id: string }): string =>
  idIn(upload, "an upload of createUpload() or the id of an upload")

/** Converts a job, with its output and files under their names. */
export const toJobResult = <K extends Kind>(
  job: StoredJob,
  { kinds, settings }: Pick<Engine["Service"], "kinds" | "settings">,
  progress: Progress | null = progressOf(job),
): JobResult<K> => {
  const { attempts, createdAt, id, kind, kindVersion, mode, priority, status, warningCode } = job
  const known = kinds.find(({ name }) => name === kind)
  const common = {
    id,
    kind,
    kindVersion,
    ...((known === undefined || differsByMode(known)) && { mode, billing: billingOf(job, settings.defaultCurrency) }),
    priority,
    metadata: callerMetadata(job),
    tags: submittedOf(job).tags ?? [],
    attempts,
    status,
    warningCode,
    createdAt: dateOf(createdAt),
  }
  // The store's rows are untyped by kind; which kind a job has is what its caller submitted.
  return { ...common, ...statusFieldsOf(job, progress) } as JobResult<K>
}

const statusFieldsOf = (job: StoredJob, progress: Progress | null): object => {
  switch (job.status) {
    case "queued":
      return { progress: null }
    case "processing":
      return { progress: progress && { value: progress.value, message: progress.message } }
    case "done":
      return { finishedAt: dateOf(job.finishedAt ?? 0), output: outputOf(job) }
    case "failed":
      return {
        finishedAt: dateOf(job.finishedAt ?? 0),
        errorCode: job.errorCode,
        errorMessage: errorMessageOf(job),
      }
  }
}

const outputOf = ({ files, output }: StoredJob): object | null =>
  output && {
    ...output,
    ...Object.fromEntries(
      files.map(({ bytes, id, mediaType, name, sha256 }) => [name, { id, mediaType, bytes, sha256 }]),
    ),
  }

/** A day of store time, which is not this process's clock: only written differently. */
const dateOf = (unixMs: number): Date => new Date(unixMs)

/** Whether `ModeFieldsOf` gives jobs of a kind their mode and charge. */
const differsByMode = ({ gate, ports }: JobKind): boolean =>
  ports.length > 0 || gate.switches.length > 0 || gate.meters.length > 0 || gate.price !== null
