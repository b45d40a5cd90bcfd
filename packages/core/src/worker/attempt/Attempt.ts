import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { isEngineStep } from "../../domain/Child.ts"
import { unknownName, valueOf } from "../../domain/givenValues.ts"
import { isBytes, isStorableText, jobBlobKey, type OutputFile } from "../../domain/index.ts"
import { announceBlobs, filesInProgress } from "../../engine/blobs.ts"
import type { OpenSpan } from "../../engine/spans.ts"
import { type AttemptError, AttemptFailed, type AttemptFile, type Child } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { BlobStore, Claim, IdGenerator, JobStore, NewJob } from "../../ports/index.ts"
import { retrying } from "../repeating.ts"
import type { EmittedChunks } from "./EmittedChunks.ts"
import { type HeldLease, type LeaseWatch, nowhere, type Placed } from "./leases.ts"
import type { ProgressReports } from "./ProgressReports.ts"

/** The functions of a context that use a name. */
type NamedCall =
  | "step"
  | "lastStep"
  | "engine.submit"
  | "engine.submitWith"
  | "children"
  | "sleep"
  | "waitFor"
  | "keepFile"
  | "writeFile"

/** A step whose value is kept, while its work runs. */
export interface RunningStep {
  readonly names: UsedNames
  readonly name: string
  /** The problem of a file that was written in it. */
  problem: string | undefined
}

/** The step in which an effect runs, for attempts whose kind has files. */
export const CurrentStep = Context.Reference<RunningStep | undefined>("@kiln/core/worker/attempt/CurrentStep", {
  defaultValue: () => undefined,
})

/** Maximum length of a name in a message, and therefore in the log. */
const shownLength = 64

/**
 * The names that one attempt has used for steps and files. A step's value is stored under its name, from which a later attempt
 * reads it, so two steps with the same name would both get the first one's value. Files with the same name would overwrite each
 * other.
 */
class UsedNames {
  readonly #used = { step: new Map<string, NamedCall | undefined>(), file: new Map<string, NamedCall | undefined>() }
  readonly #hasFiles: boolean
  #bug: KindBug | undefined

  /** `hasFiles`: whether the kind has files, which must not be written in steps. */
  constructor(hasFiles: boolean) {
    this.#hasFiles = hasFiles
  }

  /**
   * The bug of an attempt that used a name twice, or wrote a file in a step. Catching its error does not help: no later step starts,
   * and the bug is reported when the attempt ends.
   */
  get bug(): KindBug | undefined {
    return this.#bug
  }

  /** The bug of an attempt whose work returns now, although a step or a file has begun and not ended; `undefined` if all have ended. */
  get unfinishedBug(): KindBug | undefined {
    for (const used of [this.#used.step, this.#used.file])
      for (const [name, running] of used)
        if (running !== undefined)
          return new KindBug(`run returned before ${shownCall(running, name)} had finished: await it`)
    return undefined
  }

  /** Runs an effect under a name. If it fails, the name may be used again, so that the same step can be retried. */
  readonly once =
    (call: NamedCall, name: string) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.withFiber((fiber) => {
        const what = call === "keepFile" || call === "writeFile" ? "file" : "step"
        const used = this.#used[what]
        const problem = used.has(name) ? usedTwice(what, name) : what === "step" ? stepProblem(name) : undefined
        if (problem !== undefined) this.#bug ??= new KindBug(problem)
        if (this.#bug !== undefined) return Effect.die(this.#bug)
        used.set(name, call)
        return Effect.onExit(effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) used.delete(name)
            else {
              used.set(name, undefined)
              if (what === "file") this.#noteFile(call, name, fiber.getRef(CurrentStep))
            }
          }),
        )
      })

  /**
   * Runs the work of a step whose value is kept. It is a bug if it has written a file, because a later attempt skips the step, and files
   * belong to their attempt.
   */
  within<A, E, R>(name: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    if (!this.#hasFiles) return effect
    return Effect.suspend(() => {
      const step: RunningStep = { names: this, name, problem: undefined }
      return Effect.tap(Effect.provideService(effect, CurrentStep, step), () => {
        if (step.problem === undefined) return Effect.void
        return Effect.die((this.#bug ??= new KindBug(step.problem)))
      })
    })
  }

  /**
   * Notes a file whose write began and ended in a step of this attempt. One that outlasts the step's work does not count: a queue of the
   * program may have begun it in the context of the step.
   */
  #noteFile(call: NamedCall, file: string, step: RunningStep | undefined): void {
    if (step?.names !== this) return
    step.problem ??= `${shownCall(call, file)} must not be called in ${shownCall("step", step.name)}: a later attempt skips the step and lacks the file. Return the bytes from the step as text (base64) and write the file after it, or write it in a child job`
  }
}

/** A call of a context function, for messages to operators: `children("clips")`. */
export const shownCall = (what: string, name: unknown): string =>
  typeof name === "string" ? `${what}(${JSON.stringify(name.slice(0, shownLength))})` : `${what}()`

/** Maximum length of the name of a step, in UTF-16 code units. Names are keys of stores, and part of the keys of children. */
const maxStepLength = 200

/** Checked before the step runs, because afterwards its work may have been paid for. */
const stepProblem = (name: unknown): string | undefined => {
  if (typeof name !== "string" || name.length > maxStepLength || !isStorableText(name))
    return `the name of a step must be text of up to ${maxStepLength} characters, without U+0000 or unpaired surrogates`
  return isEngineStep(name) ? `a step must not be named "${name.slice(0, shownLength)}"` : undefined
}

const usedTwice = (what: "step" | "file", name: string): string => {
  const shown = name.slice(0, shownLength)
  return what === "step"
    ? `step "${shown}" was used twice in this attempt; give each step a unique name, e.g. "${shown}-1"`
    : `file "${shown}" was written twice in this attempt; declare a separate file for each`
}

const noJobs: ReadonlyArray<Child> = Object.freeze([])

/** An attempt that starts while no other one runs. */
export interface IsolatedRun {
  /** When the job was claimed, in milliseconds of the monotonic clock. */
  readonly claimedAtMs: number
  /** Waits until no other attempt runs, but no longer than a lease. */
  readonly waitUntilQuiet: Effect.Effect<void>
  /** Whether no other attempt has run beside this one since it began. */
  readonly wasAlone: () => boolean
}

/** One attempt at a job that this worker has claimed, from its claim until its end is written. */
export class Attempt implements Placed {
  readonly kind: JobKind
  readonly claim: Claim
  readonly lease: HeldLease
  /** Present if the job runs in isolation. */
  readonly isolated: IsolatedRun | undefined
  /** Whether the kind's work has begun. */
  hasBegun = false
  place = nowhere
  /** The prerequisites of the job, once they have finished. */
  after: ReadonlyArray<Child> = noJobs
  /** Writes what the attempt reports of its progress; `undefined` before the first report. */
  reports: ProgressReports | undefined
  /** Writes what the attempt emits; `undefined` for kinds without chunks. */
  chunks: EmittedChunks | undefined
  /** Jobs to create with the result of the attempt; `undefined` for most attempts. */
  followUps: ReadonlyArray<NewJob> | undefined
  /** Present if there is a tracer. */
  span: OpenSpan | undefined
  /** The start of the call that claimed the job, in milliseconds of the monotonic clock. */
  readonly claimedAtMs: number
  /** When its work began, in milliseconds of the monotonic clock; 0 before that. */
  beganAtMs = 0
  /** Milliseconds until the job is due again, if the attempt has deferred it. */
  dueInMs: number | undefined
  /** When its work had ended and its result was checked; 0 before that. */
  endedAtMs = 0
  #fiber: Fiber.Fiber<unknown, unknown> | undefined
  #isStopping = false
  #cutBy: Cause.Cause<AttemptError> | undefined
  #names: UsedNames | undefined
  #written: Array<string> | undefined
  #isOver = false
  #whenOver: Array<() => void> | undefined

  constructor(kind: JobKind, claim: Claim, lease: HeldLease, isolated: IsolatedRun | undefined) {
    this.kind = kind
    this.claim = claim
    this.lease = lease
    this.isolated = isolated
    this.claimedAtMs = lease.askedAtMs
  }

  /** Names of steps and files that the attempt has used. */
  get names(): UsedNames {
    return (this.#names ??= new UsedNames(this.kind.files.length > 0))
  }

  /** The bug of using a name twice or writing a file in a step, if that happened. */
  get nameBug(): UsedNames["bug"] {
    return this.#names?.bug
  }

  /** The bug of a result that did not wait for a step or a file, if that happened. Read when the work has succeeded. */
  get unfinishedBug(): UsedNames["unfinishedBug"] {
    return this.#names?.unfinishedBug
  }

  /** Keys of the blobs that the attempt began to write. */
  get written(): Array<string> {
    return (this.#written ??= [])
  }

  get hasWritten(): boolean {
    return this.#written !== undefined
  }

  /** Whether the worker interrupted the attempt in order to stop. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /** The reason why the attempt cannot go on, if there is one. It decides about the end, whatever the work returns or throws. */
  get cutBy(): Cause.Cause<AttemptError> | undefined {
    return this.#cutBy
  }

  /** Whether no part of the attempt may begin any more. */
  get isCut(): boolean {
    return this.#cutBy !== undefined || this.#isStopping || this.lease.isLost
  }

  /** Ends the work, because the attempt cannot go on. The first reason counts. Has no effect on an end that is being written. */
  cut(reason: Cause.Cause<AttemptError>): void {
    this.#cutBy ??= reason
    this.#fiber?.interruptUnsafe()
  }

  /**
   * Sets the fiber in which the work begins now. Losing the lease interrupts it from now on, which has no effect on an end that is
   * being written.
   */
  runsIn(fiber: Fiber.Fiber<unknown, unknown>, nowMs: number): void {
    this.beganAtMs = nowMs
    this.#fiber = fiber
    this.lease.whenLost(() => fiber.interruptUnsafe())
  }

  /** Says that the attempt is over: its end is written, or nothing can be written any more. */
  end(): void {
    this.#isOver = true
    const calls = this.#whenOver
    this.#whenOver = undefined
    if (calls !== undefined) for (const call of calls) call()
  }

  /** Calls the function when the attempt is over, or immediately if it already is. */
  whenOver(call: () => void): void {
    if (this.#isOver) return call()
    ;(this.#whenOver ??= []).push(call)
  }

  /** Interrupts the work, so that the job is released. Has no effect on an end that is being written. */
  stop(): void {
    this.#isStopping = true
    this.#fiber?.interruptUnsafe()
  }
}

/**
 * Returns the store time, in Unix milliseconds: that of the claim, and the time that has passed here since then. It does not depend on
 * the clock of this machine.
 */
export const storeNow = (
  { claim, claimedAtMs }: Pick<Attempt, "claim" | "claimedAtMs">,
  watch: Pick<LeaseWatch, "now">,
): number => (claim.job.phaseStartedAt ?? 0) + Math.max(0, Math.floor(watch.now() - claimedAtMs))

/** Maximum bytes of a file whose kind states no limit. No valid answer to a built-in kind is larger. */
const defaultMaxBytes = 64 * 1_024 * 1_024

/** About 15 seconds. The attempt does not wait for a blob store that is unavailable for longer. */
const putRetries = 20

interface FileServices {
  readonly blobs: BlobStore["Service"]
  readonly ids: IdGenerator["Service"]
  readonly store: JobStore["Service"]
}

/** Writes one file of an attempt. It is durable when the write succeeds; if it fails, nothing of it can be read. */
export const writeFile = Effect.fnUntraced(function* (
  { blobs, ids, store }: FileServices,
  { claim: { job, token }, kind, written }: Attempt,
  name: string,
  { data, mediaType }: AttemptFile,
) {
  if (!kind.files.includes(name))
    return yield* Effect.die(
      new KindBug(unknownName(`file "${name}" of ${kind.name}: declare it in files`, name, kind.files)),
    )
  const blobKey = jobBlobKey(job.id, token, name)
  if (!isStorableText(mediaType))
    return yield* Effect.die(
      new KindBug(
        `writeFile("${name}") expects { data, mediaType }, and mediaType must be text without U+0000 or unpaired surrogates`,
      ),
    )
  const maxBytes = valueOf(kind.fileLimits, name) ?? defaultMaxBytes
  // A stream cannot be read again, so a write is repeated only if it did not begin.
  let begun = false
  const content: Stream.Stream<Uint8Array, AttemptError> = isBytes(data)
    ? Stream.succeed(data)
    : Stream.suspend(() => {
        begun = true
        return piecesOf(name, data)
      })
  // What the file contains may have been paid for: an outage of the store must not make a retry pay for it again.
  yield* Effect.retry(announceBlobs(store), retrying)
  written.push(blobKey)
  const info = yield* Effect.mapError(
    Effect.retry(filesInProgress(blobs).writing(blobs.put(blobKey, content, { maxBytes })), {
      schedule: retrying,
      while: (error) => error._tag === "BlobUnavailable" && !begun,
      times: putRetries,
    }),
    (error) => (error._tag === "BlobTooLarge" ? tooLarge(name, maxBytes) : error),
  )
  return { id: ids.next("fil"), name, blobKey, mediaType, ...info } satisfies OutputFile
})

/** Returns the data as a stream of bytes. Checks it at run time, because JavaScript code may pass anything. */
const piecesOf = (name: string, data: unknown): Stream.Stream<Uint8Array, AttemptError> => {
  const bug = new KindBug(`the data of file "${name}" must be bytes, or a stream of bytes`)
  if (!Stream.isStream(data)) return Stream.die(bug)
  return Stream.map(data as Stream.Stream<unknown, AttemptError>, (piece) => {
    if (!isBytes(piece)) throw bug
    return piece
  })
}

const tooLarge = (name: string, maxBytes: number) =>
  new AttemptFailed({
    errorCode: "result_invalid",
    retry: true,
    detail: `the file "${name}" is larger than ${maxBytes} bytes; files.${name}.maxBytes of its kind sets the limit`,
  })
