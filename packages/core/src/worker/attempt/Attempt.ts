import type * as Cause from "effect/Cause"
import type * as Fiber from "effect/Fiber"
import type { OpenSpan } from "../../engine/spans.ts"
import type { AttemptError, Child } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import type { Claim, NewJob } from "../../ports/index.ts"
import { nowhere, type Placed } from "../Bag.ts"
import type { HeldLease } from "./HeldLease.ts"
import type { IsolatedRun } from "./Isolation.ts"
import type { EmittedChunks } from "./EmittedChunks.ts"
import type { ProgressReports } from "./ProgressReports.ts"
import { UsedNames } from "./UsedNames.ts"

const noJobs: ReadonlyArray<Child> = Object.freeze([])

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
