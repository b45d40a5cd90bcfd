import type { Job, JobId, SwitchName } from "@kiln/core/domain"
import type { Kernel } from "./Kernel.ts"
import type { Network } from "./Network.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { Reached } from "./Reached.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

/** A claim as the store granted it. */
interface GrantedClaim {
  readonly process: SimulatedProcess
  readonly token: number
  readonly claimedAt: number
  /** Store time. */
  leaseEndsAt: number
  /** When its process was told that it is gone. */
  toldLostAt: number | undefined
}

/** How stale a worker's view of the switches may be, in milliseconds. */
const gateAgeMs = 500

/** Which provider a kept step pays for. */
const providerOfStep: Readonly<Record<string, string>> = { transcribe: "transcription", reply: "reply" }

/** Keeps the books on claims and on what is done under them: who holds what, who may still act, what was paid for. */
export class ClaimBooks {
  readonly #kernel: Kernel
  readonly #store: SimulatedProcess
  readonly #network: Network
  readonly #watch: Watch
  readonly #reached: Reached
  /** By job and attempt. */
  readonly #claims = new Map<string, GrantedClaim>()
  readonly #calls: Array<ProviderCallRecord> = []
  readonly #callsOfJob = new Map<JobId, Array<ProviderCallRecord>>()
  /** By job and step: the attempt that kept it. */
  readonly #kept = new Map<string, number>()
  readonly #offSince = new Map<SwitchName, number>()
  #clockPutForwardAt = Number.NEGATIVE_INFINITY

  constructor(kernel: Kernel, store: SimulatedProcess, network: Network, watch: Watch, reached: Reached) {
    this.#kernel = kernel
    this.#store = store
    this.#network = network
    this.#watch = watch
    this.#reached = reached
    watch.onMoved((event, before, after) => {
      if (after === undefined) return
      if (event === "claimed" || event === "abandoned") this.#takenOver(before, after)
      if (event === "extended") this.#extended(after)
      if (event === "released" && this.#isShut(after)) this.#reached.note("a gate shuts under a live job")
      if (event === "checkpointed" && before !== undefined) this.#checkpointed(before, after)
      if (event === "completed" && before !== undefined) this.#completed(before, after)
      if (after.failures > (before?.failures ?? 0)) this.#failed(after)
      if (after.status === "failed" && after.errorCode === "internal_error")
        this.#kernel.violate("no internal error", `${after.id} failed with internal_error`)
    })
  }

  claimed(process: SimulatedProcess, job: Job): void {
    this.#claims.set(`${job.id} ${job.attempts}`, {
      process,
      token: job.token,
      claimedAt: this.#kernel.now,
      leaseEndsAt: job.claimableAt ?? 0,
      toldLostAt: undefined,
    })
  }

  /** A process learned that a claim is gone. */
  lost(process: SimulatedProcess, jobId: JobId, token: number): void {
    for (const [key, claim] of this.#claims)
      if (claim.process === process && claim.token === token && key.startsWith(`${jobId} `))
        claim.toldLostAt ??= this.#kernel.now
  }

  /** Leases end sooner than workers think. */
  clockPutForward(): void {
    this.#clockPutForwardAt = this.#kernel.now
  }

  switched(name: SwitchName, on: boolean): void {
    if (on) this.#offSince.delete(name)
    else if (!this.#offSince.has(name)) this.#offSince.set(name, this.#kernel.now)
  }

  /** Notes what a process was doing that is killed now. */
  killed(process: SimulatedProcess): void {
    if (this.#calls.some((call) => call.process === process && call.endedAt === undefined))
      this.#reached.note("killed in a provider's call")
  }

  callBegan(call: ProviderCallRecord): void {
    const job = this.#watch.jobs.get(call.jobId)
    const ofJob = this.#callsOfJob.get(call.jobId) ?? []
    this.#callsOfJob.set(call.jobId, ofJob)
    const about = `${call.provider} for ${call.jobId}, attempt ${call.attempt}, by ${call.process.name}`
    if (job !== undefined && job.mode !== call.mode)
      this.#kernel.violate("sandbox never reaches a provider", `${about}: a ${job.mode} job reached ${call.mode}`)
    if (ofJob.some((other) => other.provider === call.provider && other.attempt === call.attempt))
      this.#kernel.violate("provider calls are at most the attempts", about)
    const keptBy = this.#kept.get(`${call.jobId} ${call.provider}`)
    if (keptBy !== undefined && keptBy < call.attempt)
      this.#kernel.violate("a kept step is not bought again", `${about}; attempt ${keptBy} had kept it`)
    this.#mayAct(call, about)
    this.#mayBegin(call, about)
    this.#mayPass(call, job, about)
    ofJob.push(call)
    this.#calls.push(call)
  }

  callEnded(call: ProviderCallRecord): void {
    this.#mayAct(
      call,
      `the end of ${call.provider} for ${call.jobId}, attempt ${call.attempt}, by ${call.process.name}`,
    )
    this.#calls.splice(this.#calls.indexOf(call), 1)
  }

  /** A worker that has not stood still acts only within its lease, and not once it knows that it is lost. */
  #mayAct(call: ProviderCallRecord, about: string): void {
    const claim = this.#claims.get(`${call.jobId} ${call.attempt}`)
    if (claim === undefined || claim.process !== call.process) {
      this.#kernel.violate("only a claim lets a worker act", about)
      return
    }
    const { now } = this.#kernel
    const lateMs = this.#store.wallTimeMs - claim.leaseEndsAt
    // A worker counts by a monotonic clock of its own: it cannot know that the store's has jumped, until it is told.
    if (lateMs > 0 && !call.process.stoodStillSince(claim.claimedAt) && this.#clockPutForwardAt < claim.claimedAt)
      this.#kernel.violate("a worker stops before its lease ends", `${about}: ${lateMs} ms after it`)
    const told = claim.toldLostAt
    if (told !== undefined && now > told && !call.process.stoodStillSince(told))
      this.#kernel.violate("a worker stops when its lease is lost", `${about}: ${now - told} ms after it was told`)
  }

  /** Nothing is bought under a lease that is over, not even by a worker that has just come to. */
  #mayBegin(call: ProviderCallRecord, about: string): void {
    const claim = this.#claims.get(`${call.jobId} ${call.attempt}`)
    // A transcription begins with reading the file, and the worker may stand still there.
    if (claim === undefined || call.provider === "transcription" || this.#clockPutForwardAt >= claim.claimedAt) return
    if (this.#store.wallTimeMs > claim.leaseEndsAt) this.#kernel.violate("nothing is bought without a lease", about)
  }

  #mayPass(call: ProviderCallRecord, job: Job | undefined, about: string): void {
    // A transcription begins with reading the file, which takes its time.
    if (call.mode !== "live" || job === undefined || call.provider === "transcription") return
    for (const name of switchesOf(job)) {
      const ageMs = this.#kernel.now - (this.#offSince.get(name) ?? this.#kernel.now)
      if (ageMs > gateAgeMs)
        this.#kernel.violate("a switch thrown stops provider calls", `${about}: ${name} off for ${ageMs} ms`)
    }
  }

  #isShut(job: Job): boolean {
    return job.mode === "live" && switchesOf(job).some((name) => this.#offSince.has(name))
  }

  /** A claim of a job that was still held says that its worker was lost: it must have been. */
  #takenOver(before: Job | undefined, after: Job): void {
    if (before?.held !== true) return
    this.#reached.note("a lost worker's job is claimed again")
    const claim = this.#claims.get(`${before.id} ${before.attempts}`)
    if (claim === undefined) return
    const { process } = claim
    if (this.#calls.some((call) => call.jobId === before.id && call.process === process))
      this.#reached.note("a job is claimed while its former worker still runs it")
    const excused =
      process.state === "killed" ||
      this.#clockPutForwardAt >= claim.claimedAt ||
      process.stoodStillSince(claim.claimedAt) ||
      this.#network.cutOffSince(process, claim.claimedAt)
    if (!excused)
      this.#kernel.violate(
        "only lost workers are counted",
        `${after.id}: ${process.name} held it and was there all the time`,
      )
  }

  #extended(after: Job): void {
    const claim = this.#claims.get(`${after.id} ${after.attempts}`)
    if (claim !== undefined && claim.token === after.token) claim.leaseEndsAt = after.claimableAt ?? claim.leaseEndsAt
  }

  #checkpointed(before: Job, after: Job): void {
    for (const step of Object.keys(after.checkpoints)) {
      const provider = providerOfStep[step]
      const key = `${after.id} ${provider ?? ""}`
      if (provider !== undefined && !Object.hasOwn(before.checkpoints, step)) this.#kept.set(key, after.attempts)
    }
  }

  #completed(before: Job, after: Job): void {
    if ((this.#kept.get(`${after.id} transcription`) ?? before.attempts) < before.attempts)
      this.#reached.note("a checkpoint spares a call")
  }

  /** The failure budget pays for providers' failures only. */
  #failed(after: Job): void {
    const failures = (this.#callsOfJob.get(after.id) ?? []).filter((call) => call.outcome === "failed").length
    if (after.failures > failures)
      this.#kernel.violate(
        "only providers' failures count as failures",
        `${after.id}: ${after.failures} counted, ${failures} happened`,
      )
  }
}

const switchesOf = (job: Job): ReadonlyArray<SwitchName> =>
  job.kind === "image_generation" ? ["ai", "images"] : ["ai", "audio"]
