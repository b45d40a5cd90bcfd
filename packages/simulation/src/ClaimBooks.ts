import type { Job, JobId } from "@kiln/core/domain"
import { projectShare } from "@kiln/core/rules"
import type { EngineSettings } from "@kiln/core/effect"
import type { Kernel } from "./Kernel.ts"
import type { Network } from "./Network.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedKinds } from "./SimulatedKinds.ts"
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
  /** By how much the store's clock jumped since its lease was granted or extended, in milliseconds. */
  jumpedMs: number
}

/** The maximum staleness of a worker's view of the switches, in milliseconds. */
const gateAgeMs = 500

/** Which provider a kept step pays for. */
const providerOfStep: Readonly<Record<string, string>> = { transcribe: "transcription", reply: "reply" }

/** Checks claims and the writes under them: which worker holds which job, which claims are stale, which calls were paid for. */
export class ClaimBooks {
  readonly #kernel: Kernel
  readonly #settings: EngineSettings
  readonly #store: SimulatedProcess
  readonly #network: Network
  readonly #watch: Watch
  readonly #coverage: Coverage
  readonly #kinds: SimulatedKinds
  /** By job and attempt. */
  readonly #claims = new Map<string, GrantedClaim>()
  readonly #calls: Array<ProviderCallRecord> = []
  readonly #callsOfJob = new Map<JobId, Array<ProviderCallRecord>>()
  /** By job and step: the attempt that kept it. */
  readonly #kept = new Map<string, number>()
  readonly #offSince = new Map<string, number>()

  constructor(
    kernel: Kernel,
    settings: EngineSettings,
    store: SimulatedProcess,
    network: Network,
    watch: Watch,
    coverage: Coverage,
    kinds: SimulatedKinds,
  ) {
    this.#kinds = kinds
    this.#kernel = kernel
    this.#settings = settings
    this.#store = store
    this.#network = network
    this.#watch = watch
    this.#coverage = coverage
    watch.onMoved((event, before, after) => {
      if (after === undefined) return
      this.#withinBudgets(after)
      if (event === "claimed" || event === "abandoned") this.#takenOver(before, after)
      if (event === "extended") this.#extended(after)
      if (event === "released" && this.#isShut(after)) this.#coverage.note("a gate closes during a live job")
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
      jumpedMs: 0,
    })
  }

  /** A process learned that a claim is gone. */
  lost(process: SimulatedProcess, jobId: JobId, token: number): void {
    for (const [key, claim] of this.#claims)
      if (claim.process === process && claim.token === token && key.startsWith(`${jobId} `))
        claim.toldLostAt ??= this.#kernel.now
  }

  /** Leases end sooner than workers think. */
  clockPutForward(ms: number): void {
    for (const claim of this.#claims.values()) claim.jumpedMs += ms
  }

  switched(name: string, on: boolean): void {
    if (on) this.#offSince.delete(name)
    else if (!this.#offSince.has(name)) this.#offSince.set(name, this.#kernel.now)
  }

  /** Records the activity of a process that is killed now. */
  killed(process: SimulatedProcess): void {
    if (this.#calls.some((call) => call.process === process && call.endedAt === undefined))
      this.#coverage.note("killed during a provider call")
  }

  callBegan(call: ProviderCallRecord): void {
    const job = this.#watch.jobs.get(call.jobId)
    const ofJob = this.#callsOfJob.get(call.jobId) ?? []
    this.#callsOfJob.set(call.jobId, ofJob)
    const about = `${call.provider} for ${call.jobId}, attempt ${call.attempt}, by ${call.process.name}`
    if (job !== undefined && job.mode !== call.mode)
      this.#kernel.violate(
        "a job reaches only providers of its mode",
        `${about}: a ${job.mode} job reached ${call.mode}`,
      )
    if (ofJob.some((other) => other.provider === call.provider && other.attempt === call.attempt))
      this.#kernel.violate("provider calls are at most the attempts", about)
    const keptBy = this.#kept.get(`${call.jobId} ${call.provider}`)
    if (keptBy !== undefined && keptBy < call.attempt)
      this.#kernel.violate("a checkpointed step is not paid for again", `${about}; attempt ${keptBy} had kept it`)
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
      this.#kernel.violate("a worker acts only under a claim", about)
      return
    }
    const { now } = this.#kernel
    const lateMs = this.#lateMs(claim)
    if (lateMs > 0 && !call.process.stoodStillSince(claim.claimedAt))
      this.#kernel.violate("a worker stops before its lease ends", `${about}: ${lateMs} ms after it`)
    const told = claim.toldLostAt
    if (told !== undefined && now > told && !call.process.stoodStillSince(told))
      this.#kernel.violate("a worker stops when its lease is lost", `${about}: ${now - told} ms after it was told`)
  }

  /**
   * Returns for how long a lease has been over by the store's clock without its jumps: a worker uses its own clock and learns
   * of jumps only from responses.
   */
  #lateMs(claim: GrantedClaim): number {
    return this.#store.wallTimeMs - claim.jumpedMs - claim.leaseEndsAt
  }

  /** Nothing is bought under a lease that is over, not even by a worker that has just come to. */
  #mayBegin(call: ProviderCallRecord, about: string): void {
    const claim = this.#claims.get(`${call.jobId} ${call.attempt}`)
    if (claim !== undefined && this.#lateMs(claim) > 0)
      this.#kernel.violate("no provider call begins without a lease", about)
    this.#withinSlots(call, claim?.claimedAt ?? this.#kernel.now, about)
  }

  /** Each mode has its own slots, and a project gets at most its share of them beside others. */
  #withinSlots(call: ProviderCallRecord, claimedAt: number, about: string): void {
    const { concurrency, limits } = this.#settings
    const others = this.#calls.filter(({ mode, process }) => process === call.process && mode === call.mode)
    if (others.length >= concurrency)
      this.#kernel.violate("no more concurrent calls than slots", `${about}, beside ${others.length} others`)
    if (limits.perProject !== "share") return
    const projectOf = (jobId: JobId) => this.#watch.jobs.get(jobId)?.projectId
    const ofProject = others.filter(({ jobId }) => projectOf(jobId) === projectOf(call.jobId)).length
    // The worker has held a job of another project since before it asked for this one.
    const isBeside = others.some(
      ({ beganAt, jobId }) => beganAt < claimedAt && projectOf(jobId) !== projectOf(call.jobId),
    )
    if (isBeside && ofProject >= projectShare(concurrency))
      this.#kernel.violate("no project holds more than its share", `${about}, beside ${ofProject} of its project`)
    if (isBeside && ofProject + 1 === projectShare(concurrency))
      this.#coverage.note("a project has all slots of its share")
    if (!isBeside && ofProject >= projectShare(concurrency))
      this.#coverage.note("a project alone has more than its share")
  }

  #mayPass(call: ProviderCallRecord, job: Job | undefined, about: string): void {
    if (call.mode !== "live" || job === undefined) return
    for (const name of this.#kinds.of(job).gate.switches) {
      const ageMs = this.#kernel.now - (this.#offSince.get(name) ?? this.#kernel.now)
      if (ageMs > gateAgeMs)
        this.#kernel.violate("turning a switch off stops provider calls", `${about}: ${name} off for ${ageMs} ms`)
    }
  }

  #isShut(job: Job): boolean {
    return job.mode === "live" && this.#kinds.of(job).gate.switches.some((name) => this.#offSince.has(name))
  }

  /** A claim of a job that was still held implies that its worker was lost, so it must have been. */
  #takenOver(before: Job | undefined, after: Job): void {
    if (before?.held !== true) return
    this.#coverage.note("a lost worker's job is claimed again")
    const claim = this.#claims.get(`${before.id} ${before.attempts}`)
    if (claim === undefined) return
    const { process } = claim
    if (this.#calls.some((call) => call.jobId === before.id && call.process === process))
      this.#coverage.note("a job is claimed while its previous worker still runs it")
    const excused =
      process.state === "killed" ||
      // A heartbeat comes every third of a lease, so a jump must be longer than the rest of it to end one.
      claim.jumpedMs >= this.#settings.leaseDurationMs / 2 ||
      process.stoodStillSince(claim.claimedAt) ||
      this.#network.cutOffSince(process, "stores", claim.claimedAt)
    if (!excused)
      this.#kernel.violate(
        "only lost workers are counted",
        `${after.id}: ${process.name} held it and was there all the time`,
      )
  }

  #extended(after: Job): void {
    const claim = this.#claims.get(`${after.id} ${after.attempts}`)
    if (claim === undefined || claim.token !== after.token) return
    const leaseEndsAt = after.claimableAt ?? 0
    // After a jump, the run limit may shorten a granted lease, and the worker may never learn of it.
    if (leaseEndsAt < claim.leaseEndsAt + claim.jumpedMs) return
    claim.leaseEndsAt = leaseEndsAt
    claim.jumpedMs = 0
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
      this.#coverage.note("a checkpoint saves a provider call")
  }

  #withinBudgets(after: Job): void {
    const { maxFailures, maxLostWorkers } = this.#settings.attempts
    // The last failure and the last lost worker end the job; one that the sweep found to be lost, at the next claim.
    const spent = after.failures >= maxFailures || after.lostWorkers > maxLostWorkers
    const goesOn = after.lostWorkers === maxLostWorkers && after.held
    if (spent || goesOn)
      this.#kernel.violate(
        "budgets end a job",
        `${after.id}: ${after.failures} failures, ${after.lostWorkers} lost workers`,
      )
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
