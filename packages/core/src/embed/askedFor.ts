import type * as Clock from "effect/Clock"
import { authorize, type JobMode, type Json, readPriority, requireNumber, requireOptions } from "../domain/index.ts"
import { KindUnknown } from "../domain/Errors.ts"
import { isDate } from "../domain/realms.ts"
import { maxDelayMs } from "../engine/prepareJob.ts"
import type { JobRequest, Engine } from "../engine/index.ts"
import type { JobKind } from "../kinds/index.ts"
import { submittedFor, uniqueFor } from "./attached.ts"
import { callerOf } from "./callers.ts"
import { requireMode } from "./checkOptions.ts"
import type { Submission, SubmitOptions } from "./EmbeddedEngine.ts"
import { submissionFields } from "./optionNames.ts"

const isIdempotencyKey = (value: unknown): boolean => typeof value === "string" && /^[\x21-\x7e]{1,255}$/.test(value)

const kindNamed = (kinds: ReadonlyArray<JobKind>, name: string): JobKind => {
  if (typeof name !== "string") throw new TypeError("the kind of a job must be given by its name, a text")
  const kind = kinds.find((known) => known.name === name)
  if (kind === undefined) throw new KindUnknown({ kind: name, known: kinds.map((known) => known.name) })
  return kind
}

/** Turns the arguments of `submit` and `submitMany` into what the engine takes. Throws `KindUnknown`, and `TypeError` for options. */
export const makeAskedFor = (
  { kinds }: Engine["Service"],
  clock: Clock.Clock,
  defaultMode: JobMode,
  capture: (() => Json | undefined) | undefined,
) => {
  const delayOf = ({ delayMs, runAt }: SubmitOptions): number | undefined => {
    if (delayMs !== undefined) requireNumber("delayMs", delayMs, { least: 0, most: maxDelayMs })
    if (runAt === undefined) return delayMs
    if (delayMs !== undefined) throw new TypeError("give either delayMs or runAt, not both")
    if (!isDate(runAt) || Number.isNaN(runAt.getTime())) throw new TypeError("runAt must be a valid Date")
    const untilMs = runAt.getTime() - clock.currentTimeMillisUnsafe()
    if (untilMs > maxDelayMs) throw new TypeError("runAt must be at most 366 days from now")
    return Math.max(0, untilMs)
  }
  const askedOf = (kind: JobKind, request: unknown, options: SubmitOptions): JobRequest => {
    const { idempotencyKey, mode = defaultMode, priority, project } = options
    requireMode(mode)
    if (idempotencyKey !== undefined && !isIdempotencyKey(idempotencyKey))
      throw new TypeError("idempotencyKey must be a text of 1 to 255 visible ASCII characters without spaces")
    if (priority !== undefined) readPriority(priority)
    const grant = authorize(callerOf(mode, project, [kind.keyScope]), kind.keyScope)
    if (grant === undefined) throw new TypeError(`no grant for ${kind.keyScope}`)
    return {
      grant,
      kind,
      request,
      idempotencyKey,
      placement: {
        priority,
        delayMs: delayOf(options),
        submitted: submittedFor(kind, options, capture),
        unique: uniqueFor(options.unique, kind, request),
      },
    }
  }
  return {
    one: (name: string, request: unknown, options: SubmitOptions): JobRequest =>
      askedOf(kindNamed(kinds, name), request, options),
    many: (place: string, name: string, submissions: ReadonlyArray<Submission<unknown>>): ReadonlyArray<JobRequest> => {
      const kind = kindNamed(kinds, name)
      if (!Array.isArray(submissions)) throw new TypeError(`${place} expects an array of { request, … }`)
      return submissions.map((submission: Submission<unknown>, index) => {
        requireOptions(`${place}, job ${index}`, submission, submissionFields)
        return askedOf(kind, submission.request, submission)
      })
    },
  }
}
