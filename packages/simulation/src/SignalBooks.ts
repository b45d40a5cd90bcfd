import type { Job, JobId, Json } from "@kiln/core/domain"
import type { SignalOutcome, SignalRequest } from "@kiln/core/ports"
import { sameValue } from "@kiln/conformance/model"
import type { Coverage } from "./Coverage.ts"
import type { Kernel } from "./Kernel.ts"
import { approval, approvalMs, narration, rest, restMs } from "./messageKinds.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

/** The name under which a job keeps the end of a wait. */
const untilStep = (name: string): string => `kiln:until ${name}`

/** How much faster than the store's the monotonic clock of a process may be. */
const maxDrift = 0.001

/** The outcome of a signal for its sender. */
export type SignalAnswer = "first" | "later" | "finished" | "unknown"

/** Keeps the books on waits, in store time: the first signal counts, also for its sender, and no wait ends early or without a signal that came in time. */
export class SignalBooks {
  readonly #kernel: Kernel
  readonly #store: SimulatedProcess
  readonly #watch: Watch
  readonly #coverage: Coverage
  readonly #latencyMs: number
  readonly #accepted = new Map<JobId, { readonly value: Json; readonly at: number }>()
  readonly #claimedAt = new Map<JobId, number>()
  /** The ends of the waits for the signal. */
  readonly #until = new Map<JobId, number>()

  constructor(kernel: Kernel, store: SimulatedProcess, watch: Watch, coverage: Coverage, latencyMs: number) {
    this.#kernel = kernel
    this.#store = store
    this.#watch = watch
    this.#coverage = coverage
    this.#latencyMs = latencyMs
    watch.onSignaled((items, outcomes) => this.#signaled(items, outcomes))
    watch.onMoved((event, before, after) => {
      if (after?.kind !== narration.name) return
      if (event === "claimed") this.#claimedAt.set(after.id, this.#now)
      if (event === "checkpointed" && before !== undefined) this.#kept(before, after)
      if (event === "completed" && before !== undefined) this.#completed(before, after)
    })
  }

  get #now(): number {
    return this.#store.wallTimeMs
  }

  /** By how much the worker's view of store time may be ahead: it counts from before its claim, with its own clock. */
  #aheadMs(jobId: JobId): number {
    const claimedAt = this.#claimedAt.get(jobId) ?? this.#now
    return this.#latencyMs + 1 + maxDrift * (this.#now - claimedAt + this.#latencyMs)
  }

  /** The sender of a signal has learned its outcome. */
  answered(jobId: JobId, value: Json, answer: SignalAnswer): void {
    const job = this.#watch.jobs.get(jobId)
    const first = this.#accepted.get(jobId)
    const said = () => `${jobId} said "${answer}" to ${JSON.stringify(value)}, and has ${JSON.stringify(first?.value)}`
    if (answer === "first" && !sameValue(first?.value, value)) this.#kernel.violate("the first signal counts", said())
    if (answer === "later" && (first === undefined || sameValue(first.value, value)))
      this.#kernel.violate("the first signal counts", said())
    if (answer === "finished" && job !== undefined && job.finishedAt === null)
      this.#kernel.violate("an unfinished job takes signals", said())
    if (answer === "unknown" && !this.#watch.removed.has(jobId)) this.#kernel.violate("no job is lost", said())
    if (answer === "later") this.#coverage.note("a second signal has no effect")
  }

  #signaled(items: ReadonlyArray<SignalRequest>, outcomes: ReadonlyArray<SignalOutcome>): void {
    for (const [at, { jobId, value }] of items.entries()) {
      if (outcomes[at] !== "Accepted") continue
      const first = this.#accepted.get(jobId)
      if (first !== undefined)
        this.#kernel.violate(
          "the first signal counts",
          `${jobId}: ${JSON.stringify([first.value, value])} were accepted`,
        )
      this.#accepted.set(jobId, { value, at: this.#now })
    }
  }

  /** A wait begins when an attempt gets to it, and is over at its end: by the store's clock, whatever that of the worker says. */
  #kept(before: Job, after: Job): void {
    for (const [name, ms] of [
      [approval, approvalMs],
      [rest, restMs],
    ] as const) {
      const [was, is] = [before.checkpoints[untilStep(name)], after.checkpoints[untilStep(name)]]
      if (sameValue(was, is)) continue
      const said = () => `${after.id} waits until ${JSON.stringify(was)}, then ${JSON.stringify(is)}, at ${this.#now}`
      const latest = this.#now + ms + this.#aheadMs(after.id)
      const earliest = (this.#claimedAt.get(after.id) ?? this.#now) + ms
      if (typeof is === "number" && (was !== undefined || is > latest || is < earliest))
        this.#kernel.violate("a wait begins when an attempt gets to it", said())
      if (name === approval && typeof is === "number") this.#until.set(after.id, is)
      if (is === "over" && (typeof was !== "number" || this.#now < was - this.#aheadMs(after.id)))
        this.#kernel.violate("no wait ends early", said())
    }
  }

  #completed(before: Job, after: Job): void {
    const first = this.#accepted.get(after.id)
    const approved = after.output?.["approved"] ?? null
    const ends = [before.checkpoints[untilStep(approval)], before.checkpoints[untilStep(rest)]]
    const said = () => `${after.id}: ${JSON.stringify({ approved, first, ends })}`
    if (approved !== null) {
      this.#coverage.note("a job gets its signal")
      if (!sameValue(approved, first?.value ?? null)) this.#kernel.violate("the first signal counts", said())
    } else {
      this.#coverage.note("a wait times out")
      if (ends[0] !== "over") this.#kernel.violate("no wait ends early", said())
      const until = this.#until.get(after.id) ?? 0
      if (first !== undefined && first.at < until - this.#aheadMs(after.id))
        this.#kernel.violate("a signal that comes in time counts", `${said()}, and waited until ${until}`)
    }
    if (typeof ends[1] !== "number" || this.#now < ends[1] - this.#aheadMs(after.id))
      this.#kernel.violate("no wait ends early", said())
  }
}
