import { isFinished, type Job, type JobId, type JobStatus, type Upload, type UploadId } from "@kiln/core/domain"
import type { ChunkWrite, FencedOutcome, SignalOutcome, SignalRequest } from "@kiln/core/ports"
import { jobChange, type JobMoveName, sameValue } from "@kiln/conformance/model"
import type { Kernel } from "./Kernel.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import { uploadChange } from "./uploadChange.ts"

/** The watch's access to the stores, which bypasses the network and its faults. */
export interface Records {
  readonly job: (job: Pick<Job, "id" | "projectId" | "keyId" | "mode">) => Job | undefined
  readonly upload: (id: UploadId) => Upload | undefined
}

/** The status after each end of a claim, which a repeat of it finds. */
const endsIn: Readonly<Record<string, JobStatus>> = {
  completeJobs: "done",
  failJobs: "failed",
  deferJobs: "processing",
  releaseJobs: "processing",
}

/** Reports moves to checkers. */
export type JobMoved = (event: JobMoveName, before: Job | undefined, after: Job | undefined) => void

/** Reports the items of a verb, and the outcome of each. */
type Answered<Item, Outcome> = (items: ReadonlyArray<Item>, outcomes: ReadonlyArray<Outcome>) => void

export type UploadMoved = (verb: string, before: Upload, after: Upload | undefined) => void

/**
 * Observes every step of the record stores and checks it against the table. It also checks untouched records, periodically and
 * at the end.
 */
export class Watch {
  readonly jobs = new Map<JobId, Job>()
  readonly uploads = new Map<UploadId, Upload>()
  /** Jobs whose records were pruned. */
  readonly removed = new Set<JobId>()
  /** Jobs an operator has asked to cancel. */
  readonly cancelAsked = new Set<JobId>()
  readonly #kernel: Kernel
  readonly #store: SimulatedProcess
  readonly #records: Records
  readonly #coverage: Coverage
  readonly #moved: Array<JobMoved> = []
  readonly #uploadMoved: Array<UploadMoved> = []
  readonly #arrived: Array<(file: NonNullable<Upload["file"]>) => void> = []
  readonly #appended: Array<Answered<ChunkWrite, FencedOutcome>> = []
  readonly #signaled: Array<Answered<SignalRequest, SignalOutcome>> = []
  readonly #idempotencyKeys = new Map<string, JobId>()

  constructor(kernel: Kernel, store: SimulatedProcess, records: Records, coverage: Coverage) {
    this.#kernel = kernel
    this.#store = store
    this.#records = records
    this.#coverage = coverage
  }

  onMoved(notice: JobMoved): void {
    this.#moved.push(notice)
  }

  /** Calls `notice` when a transfer has completed an upload. */
  onFileArrived(notice: (file: NonNullable<Upload["file"]>) => void): void {
    this.#arrived.push(notice)
  }

  /** Calls `notice` with every change of an upload, and the verb that made it. */
  onUploadMoved(notice: UploadMoved): void {
    this.#uploadMoved.push(notice)
  }

  /** Calls `notice` with the chunks of each call. */
  onAppended(notice: Answered<ChunkWrite, FencedOutcome>): void {
    this.#appended.push(notice)
  }

  /** Calls `notice` with the signals of each call. */
  onSignaled(notice: Answered<SignalRequest, SignalOutcome>): void {
    this.#signaled.push(notice)
  }

  /** Chunks were written. */
  appended(items: ReadonlyArray<ChunkWrite>, outcomes: ReadonlyArray<FencedOutcome>): void {
    for (const notice of this.#appended) notice(items, outcomes)
  }

  /** Signals were sent. */
  signaled(items: ReadonlyArray<SignalRequest>, outcomes: ReadonlyArray<SignalOutcome>): void {
    for (const notice of this.#signaled) notice(items, outcomes)
    const ids = items.map(({ jobId }) => jobId)
    this.touched("signalJobs", ids)
  }

  /** A job was created. */
  created(job: Job): void {
    const key = `${job.keyId} ${job.idempotencyKey}`
    const other = this.#idempotencyKeys.get(key)
    if (other !== undefined && this.jobs.has(other))
      this.#kernel.violate("one job per idempotency key", `${other} and ${job.id} share ${key}`)
    this.#idempotencyKeys.set(key, job.id)
    this.#look("createJobs", undefined, job)
    if (job.uploadId !== null) this.uploadTouched("createJobs", job.uploadId)
  }

  /** A verb may have changed these jobs. */
  touched(verb: string, ids: Iterable<JobId>): void {
    for (const id of ids) {
      const before = this.jobs.get(id)
      if (before !== undefined) this.#look(verb, before, this.#records.job(before))
    }
  }

  /** Checks that a fenced verb wrote only for the claims it confirmed. */
  fenced(
    verb: string,
    answers: ReadonlyArray<{ readonly jobId: JobId; readonly token: number; readonly outcome: FencedOutcome }>,
  ): void {
    // One worker may hold an old claim and the new one of the same job: a batch then names the job twice.
    for (const [jobId, ofJob] of Map.groupBy(answers, (answer) => answer.jobId)) {
      const before = this.jobs.get(jobId)
      this.touched(verb, [jobId])
      const after = this.jobs.get(jobId)
      if (before !== undefined && after !== undefined) this.#fencedJob(verb, before, after, ofJob)
    }
  }

  #fencedJob(
    verb: string,
    before: Job,
    after: Job,
    answers: ReadonlyArray<{ readonly token: number; readonly outcome: FencedOutcome }>,
  ): void {
    const said = () =>
      `${verb} of ${before.id} (at ${before.token}) said ${answers.map(({ outcome, token }) => `${outcome} to ${token}`).join(", ")}`
    const holds = (token: number) => before.held && before.token === token
    const wrote = before !== after
    if (wrote && !answers.some(({ outcome, token }) => outcome === "Written" && holds(token)))
      this.#kernel.violate("fencing", `${said()} and wrote`)
    for (const { outcome, token } of answers) {
      if (outcome === "LeaseLost") this.#coverage.note(`LeaseLost: ${verb}`)
      const repeated = after.token === token + 1 && !after.held && after.status === endsIn[verb]
      if (outcome === "Written" && !holds(token) && !repeated) this.#kernel.violate("fencing", said())
      if (outcome === "LeaseLost" && holds(token)) this.#kernel.violate("a valid claim is not refused", said())
    }
  }

  /** Compares every stored record with the last observed state. */
  everything(verb: string): void {
    this.touched(verb, this.jobs.keys())
    for (const id of this.uploads.keys()) this.uploadTouched(verb, id)
  }

  /** A verb may have changed this upload. */
  uploadTouched(verb: string, id: UploadId, token?: number): void {
    const before = this.uploads.get(id)
    const after = this.#records.upload(id)
    const illegal = uploadChange(before, after, this.#store.wallTimeMs, verb, token)
    if (illegal !== undefined) this.#kernel.violate("uploads", `${id} by ${verb}: ${illegal}`)
    if (before !== undefined && !sameValue(before, after))
      for (const notice of this.#uploadMoved) notice(verb, before, after)
    if (after === undefined) this.uploads.delete(id)
    else this.uploads.set(id, after)
    const file = after?.file ?? null
    if (file !== null && before?.file === null) for (const notice of this.#arrived) notice(file)
  }

  #canceled(id: JobId, before: Job | undefined): void {
    if (!this.cancelAsked.has(id)) this.#kernel.violate("a job is canceled when an operator says so", id)
    if (before?.held === true) this.#coverage.note("a claimed job is canceled")
  }

  #look(verb: string, before: Job | undefined, after: Job | undefined): void {
    const change = jobChange(before, after, this.#store.wallTimeMs, verb)
    if (change._tag === "Unchanged") return
    const id = (after ?? before)?.id as JobId
    if (change._tag === "Illegal") {
      this.#kernel.violate(
        "legal transitions",
        `${verb} made of ${JSON.stringify(before)} ${JSON.stringify(after)}: ${change.reason}`,
      )
      return
    }
    this.#kernel.trace(() => `    ${id} ${change.event}${after === undefined ? "" : ` (token ${after.token})`}`)
    if (after === undefined) {
      this.jobs.delete(id)
      this.removed.add(id)
    } else this.jobs.set(id, after)
    this.#coverage.note(`event: ${change.event}`)
    if (after !== undefined && after.status === "failed" && !(before !== undefined && isFinished(before)))
      this.#coverage.note(`failed: ${after.errorCode ?? ""}`)
    if (change.event === "canceled") this.#canceled(id, before)
    for (const notice of this.#moved) notice(change.event, before, after)
  }
}
