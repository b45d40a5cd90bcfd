import type { JobId } from "./Ids.ts"
import { progressStep } from "./Progress.ts"

/** The step of a job that waits for other jobs, its children. */
export interface ParentStep {
  readonly jobId: JobId
  readonly step: string
  /** The number of the request among those of the step, from 0. Children of earlier versions have it in their key only. */
  readonly index?: number
}

/** The label of all children of a job. */
export const childLabel = (parent: JobId): string => `^${parent}`

/** The label of the children of one step. */
export const stepLabel = ({ jobId, step }: ParentStep): string => `^${jobId} ${step}`

/** The label of all jobs that start after this one. */
export const afterLabel = (prerequisite: JobId): string => `~${prerequisite}`

/**
 * The idempotency key of a child, numbered from 0: repeated by a later attempt, it is the same job. It contains spaces, which no key
 * of a caller does.
 */
export const childKey = ({ jobId, step }: ParentStep, index: number): string =>
  `child ${jobId} ${encodeURIComponent(step)} ${index}`

/** The idempotency key of a job that a step submits: repeated by a later attempt, it is the same job. */
export const followUpKey = ({ jobId, step }: ParentStep): string => `submit ${jobId} ${encodeURIComponent(step)}`

/** Returns the number of a child, which its retry has too. */
export const childIndex = (parent: ParentStep, idempotencyKey: string): number =>
  parent.index ?? Number(idempotencyKey.slice(idempotencyKey.lastIndexOf(" ") + 1))

const countPrefix = "kiln:children "

/** The name under which a job keeps how many children a step has, as it keeps the values of steps. */
export const countStep = (step: string): string => `${countPrefix}${step}`

const untilPrefix = "kiln:until "

/** The name under which a job keeps until when a step waits. */
export const untilStep = (step: string): string => `${untilPrefix}${step}`

const signalPrefix = "kiln:signal "

/** The name under which a retry keeps the signal that the retried job had received. */
export const signalStep = (name: string): string => `${signalPrefix}${name}`

const promisedPrefix = "kiln:promised "

/**
 * The name under which a job keeps the id of a job that is to exist with its result. The name of the step has the id of a job that exists
 * already, so that a step which changes from one to the other, also in an earlier version of kiln, takes neither for the other.
 */
export const promisedStep = (step: string): string => `${promisedPrefix}${step}`

const ownPrefixes = [countPrefix, untilPrefix, signalPrefix, promisedPrefix]

/** Whether a value that a job keeps under this name is the engine's own, and not that of a step of the kind. */
export const isEngineStep = (name: string): boolean =>
  name === progressStep || ownPrefixes.some((prefix) => name.startsWith(prefix))

/** Milliseconds until a job looks again whether its children may be created, after a switch or a price was off. */
export const gatePauseMs = 1_000

/**
 * Milliseconds until a job looks again at jobs whose end does not wake it: children of another parent, because these have its uploads, and
 * retries of prerequisites.
 */
export const foreignPauseMs = 1_000
