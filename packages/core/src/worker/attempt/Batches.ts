import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type { JobMode } from "../../domain/index.ts"
import { type AttemptContext, type AttemptError, type AttemptResult, LeaseLost } from "../../kinds/AttemptContext.ts"
import { batchedJob, type BatchedResult, type KindBatch, outcomesBug } from "../../kinds/JobBatch.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { Attempt } from "./Attempt.ts"
import type { LeaseWatch } from "./leases.ts"
import { tookTooLong } from "./AttemptEnd.ts"

/** JavaScript code may return a list with a hole. */
const noOutcome: BatchedResult = Exit.die(new KindBug("run returned a list without an outcome for one of the jobs"))

/** An attempt in a batch. */
interface Member {
  readonly attempt: Attempt
  readonly context: AttemptContext<unknown>
  readonly end: (exit: BatchedResult) => void
  readonly onLeave: Array<() => void>
}

interface Batch {
  readonly options: KindBatch
  readonly mode: JobMode
  /** The jobs that have not left the batch. */
  readonly members: Set<Member>
  /** Waits for the end of the collection, and then runs the batch. */
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

/**
 * Collects the attempts of kinds with batches, and runs each batch in a fiber of its own. An attempt is one like any other for everything else:
 * it holds its slot and its lease, ends with its own outcome, and is interrupted alone. A batch has jobs of one kind, mode and project.
 */
export class Batches {
  readonly #context: Context.Context<never>
  readonly #watch: LeaseWatch
  readonly #slots: number
  readonly #collecting = new Map<string, Batch>()
  #waits = true

  /** `slots`: the number of slots of each mode. */
  constructor(context: Context.Context<never>, watch: LeaseWatch, slots: number) {
    this.#context = context
    this.#watch = watch
    this.#slots = slots
  }

  /** Runs an attempt in a batch with others, if there are any in time. */
  run(
    options: KindBatch,
    attempt: Attempt,
    context: AttemptContext<unknown>,
  ): Effect.Effect<AttemptResult, AttemptError> {
    return Effect.callback<AttemptResult, AttemptError>((resume) => {
      const member: Member = { attempt, context, end: resume, onLeave: [] }
      const batch = this.#join(options, member)
      return Effect.sync(() => this.#leave(batch, member))
    })
  }

  /** Starts the batches that wait for more jobs. */
  startAll(): void {
    for (const [key, batch] of this.#collecting) this.#start(key, batch)
  }

  /** Says whether further jobs may come, so that it makes sense to wait for them. */
  set expectsMore(expected: boolean) {
    this.#waits = expected
    if (!expected) this.startAll()
  }

  #join(options: KindBatch, member: Member): Batch {
    const { attempt } = member
    const { kind, mode, projectId } = attempt.claim.job
    // An isolated job may kill its worker, and would take the others of its batch along.
    const isAlone = attempt.isolated !== undefined || !this.#waits
    // A name of a kind has no spaces.
    const key = isAlone ? attempt.claim.job.id : `${kind} ${mode} ${projectId}`
    const found = this.#collecting.get(key)
    const batch = found ?? { options, mode, members: new Set(), fiber: undefined }
    batch.members.add(member)
    if (isAlone || batch.members.size >= options.size) this.#start(key, batch)
    else {
      if (found === undefined) this.#collect(key, batch)
      if (this.#collected(batch.mode) >= this.#slots) this.#startAllOf(batch.mode)
    }
    return batch
  }

  #collect(key: string, batch: Batch): void {
    this.#collecting.set(key, batch)
    const time = Effect.andThen(
      Effect.sleep(batch.options.waitMs),
      Effect.sync(() => this.#start(key, batch)),
    )
    batch.fiber = Effect.runForkWith(this.#context)(time)
  }

  #collected(mode: JobMode): number {
    let count = 0
    for (const batch of this.#collecting.values()) if (batch.mode === mode) count += batch.members.size
    return count
  }

  /** Nothing can come while all slots hold jobs that wait for others. */
  #startAllOf(mode: JobMode): void {
    for (const [key, batch] of this.#collecting) if (batch.mode === mode) this.#start(key, batch)
  }

  /** Ends the collection of a batch, and runs it. */
  #start(key: string, batch: Batch): void {
    const timer = batch.fiber
    this.#collecting.delete(key)
    const members = this.#holding(batch)
    batch.fiber = undefined
    const [first] = members
    if (first !== undefined) {
      const { attemptTimeoutMs } = first.attempt.kind.limits
      const work = this.#work(batch, members)
      const inTime = attemptTimeoutMs === undefined ? work : Effect.raceFirst(work, cutAfter(attemptTimeoutMs, members))
      batch.fiber = Effect.runForkWith(this.#context)(inTime)
    }
    timer?.interruptUnsafe()
  }

  /** Lets the jobs go whose lease has ended: this process was frozen. Nothing is bought for them. */
  #holding({ members }: Batch): ReadonlyArray<Member> {
    const nowMs = this.#watch.now()
    for (const member of members) {
      if (member.attempt.lease.holdsAt(nowMs)) continue
      members.delete(member)
      member.end(Exit.fail(new LeaseLost()))
    }
    return [...members]
  }

  #work({ members: present, mode, options }: Batch, members: ReadonlyArray<Member>): Effect.Effect<void> {
    const jobs = members.map(({ context, onLeave }) => batchedJob(context, (call) => void onLeave.push(call)))
    const outcomes = Effect.suspend(() => options.run(mode, jobs))
    return Effect.map(Effect.exit(outcomes), (exit) => {
      const all = Exit.isSuccess(exit) ? exit.value : members.map(() => Exit.failCause(exit.cause))
      const wrong = outcomesBug(all.length, members.length)
      for (const [n, member] of members.entries())
        if (present.delete(member)) member.end(wrong === undefined ? (all[n] ?? noOutcome) : Exit.die(wrong))
    })
  }

  /** Takes an interrupted attempt out of its batch. Without any jobs, a batch ends. */
  #leave(batch: Batch, member: Member): void {
    if (!batch.members.delete(member)) return
    for (const call of member.onLeave) call()
    if (batch.members.size > 0) return
    for (const [key, collecting] of this.#collecting) if (collecting === batch) this.#collecting.delete(key)
    batch.fiber?.interruptUnsafe()
  }
}

/** Ends the attempts of a batch that takes longer than its kind allows. */
const cutAfter = (attemptTimeoutMs: number, members: ReadonlyArray<Member>): Effect.Effect<never> =>
  Effect.andThen(
    Effect.sleep(attemptTimeoutMs),
    Effect.suspend(() => {
      for (const { attempt } of members) attempt.cut(Cause.fail(tookTooLong(attemptTimeoutMs)))
      return Effect.never
    }),
  )
