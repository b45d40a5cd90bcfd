import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { progressCheckpoint, progressStep } from "../../domain/rules.ts"
import { type Progress, progressIntervalMs } from "../../domain/Progress.ts"
import { type JobEvents, refOf } from "../../engine/JobEvents.ts"
import type { Claim, JobStore } from "../../ports/index.ts"

/** The services that reports need. */
export interface ReportServices {
  readonly store: JobStore["Service"]
  readonly events: JobEvents["Service"]
  readonly fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
}

/**
 * Writes what an attempt reports of its progress: the first report at once, later ones once a second, each time the newest. Best
 * effort: a report that the store did not take is written a second later. The report that is left at the end of the attempt is written if the job
 * waits, because callers see it meanwhile, and dropped otherwise.
 */
export class ProgressReports {
  readonly #services: ReportServices
  readonly #claim: Claim
  #next: Progress | undefined
  /** The report that is being written. */
  #underWay: Progress | undefined
  #fiber: Fiber.Fiber<void> | undefined
  #isWriting = false
  #isOver = false

  constructor(services: ReportServices, claim: Claim) {
    this.#services = services
    this.#claim = claim
  }

  /** Never waits. */
  report(progress: Progress): void {
    if (this.#isOver) return
    this.#next = progress
    if (this.#isWriting) return
    this.#isWriting = true
    this.#fiber = this.#services.fork(this.#writeAll())
  }

  /** Ends the writes of the attempt. A report that is not written yet is dropped, unless `writeLast` follows. */
  end(): void {
    this.#isOver = true
    this.#fiber?.interruptUnsafe()
  }

  /** Writes the newest report after the end, if it is not written yet. Tries once, and never fails. */
  get writeLast(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const last = this.#next ?? this.#underWay
      if (last === undefined) return Effect.void
      this.#next = this.#underWay = undefined
      return Effect.map(Effect.exit(this.#write(last)), (written) => {
        if (Exit.isSuccess(written) && written.value[0] === "Written") this.#emit(last)
      })
    })
  }

  #writeAll(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const progress = this.#next
      this.#next = undefined
      if (progress === undefined || this.#isOver) {
        this.#isWriting = false
        return Effect.void
      }
      this.#underWay = progress
      return Effect.exit(this.#write(progress)).pipe(
        Effect.map((written) => this.#wrote(progress, written)),
        Effect.andThen(Effect.sleep(progressIntervalMs)),
        Effect.andThen(Effect.suspend(() => this.#writeAll())),
      )
    })
  }

  #write(progress: Progress) {
    const { job, token } = this.#claim
    const value = progressCheckpoint(progress, job.attempts)
    return this.#services.store.checkpointJobs([{ jobId: job.id, token, step: progressStep, value }])
  }

  #wrote(progress: Progress, written: Exit.Exit<ReadonlyArray<string>, unknown>): void {
    if (this.#isOver) return
    this.#underWay = undefined
    if (Exit.isFailure(written)) this.#next ??= progress
    else if (written.value[0] === "Written") this.#emit(progress)
    else this.#lose()
  }

  /** The claim is over, so nothing can be written any more. */
  #lose(): void {
    this.#isOver = true
    this.#next = undefined
  }

  #emit(progress: Progress): void {
    const { job } = this.#claim
    this.#services.events.emit({ type: "progress", ...refOf(job), attempt: job.attempts, ...progress })
  }
}
