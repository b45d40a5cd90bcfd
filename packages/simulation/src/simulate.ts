import type * as Context from "effect/Context"
import { isFinished } from "@kiln/core/domain"
import { purgePauseMs } from "@kiln/core/rules"
import { callAgainAndAgain } from "./caller/callAgainAndAgain.ts"
import { drawCopy, heal, unleash } from "./Chaos.ts"
import { Dice } from "./Dice.ts"
import { Installation, type SimulatedStores } from "./Installation.ts"
import type { Violation } from "./Kernel.ts"
import { approvalMs, embedding, narration, restMs } from "./messageKinds.ts"
import { type MeterRule, SimulatedKinds } from "./SimulatedKinds.ts"
import { builtInKinds, type JobKind } from "@kiln/core/kinds"
import { drawLimits, drawProfile, type Profile, type SimulationMode } from "./Profile.ts"

export interface SimulationOptions {
  /** Decides everything: the same seed replays the same run. */
  readonly seed: number
  /** Drawn from the seed unless it is given. */
  readonly mode?: SimulationMode | undefined
  /** Jobs of all callers together; drawn from the seed unless it is given. */
  readonly jobs?: number | undefined
  /** Kinds of the jobs. Each needs an example. Default: the built-in ones, one that streams and waits, and one with batches. */
  readonly kinds?: ReadonlyArray<JobKind> | undefined
  /** A job's usage of meters that no built-in kind has. */
  readonly meters?: Readonly<Record<string, MeterRule>> | undefined
  /** Sees every step, a line each. */
  readonly trace?: ((line: string) => void) | undefined
}

/** The outcome of one run. */
export interface SimulationOutcome {
  readonly seed: number
  readonly profile: Profile
  /** `undefined` when every promise was kept. */
  readonly violation: Violation | undefined
  /** Jobs the stores accepted. */
  readonly jobs: number
  /** Of them, finished when the run ended. */
  readonly finished: number
  /** Virtual time, milliseconds. */
  readonly elapsedMs: number
  /** The number of times that each state was reached; see `requiredCoverage`. */
  readonly coverage: ReadonlyMap<string, number>
}

/**
 * Runs the real engine and workers once in virtual time over these stores, which must be empty and respond in the same turn of
 * the event loop. It is synchronous, so nothing interferes and a seed replays exactly.
 */
export const simulate = (stores: Context.Context<SimulatedStores>, options: SimulationOptions): SimulationOutcome => {
  // Runs produce thousands of expected errors, whose stack traces are useless.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return run(stores, options)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Far from the seeds of runs. */
const firstLimitsSeed = 1_000_000_000
const firstCopySeed = 2_000_000_000

const run = (stores: Context.Context<SimulatedStores>, options: SimulationOptions): SimulationOutcome => {
  const kinds = new SimulatedKinds(options.kinds ?? [...builtInKinds(), narration, embedding], options.meters)
  const dice = new Dice(options.seed)
  const drawn = drawProfile(dice, options)
  // From a separate random stream, so that limits do not change the runs without limits.
  const limits = drawLimits(new Dice(options.seed + firstLimitsSeed), kinds.all)
  const profile = { ...drawn, settings: { ...drawn.settings, limits } }
  const installation = new Installation(dice, profile, stores, options.trace, kinds)
  const { kernel, coverage, watch } = installation
  let atWork = installation.callers.length
  for (const caller of installation.callers)
    caller.process.run(callAgainAndAgain(caller, profile.jobsPerCaller)).addObserver((exit) => {
      if (exit._tag === "Failure") kernel.violate("every outcome is a declared one", String(exit.cause))
      atWork -= 1
    })
  unleash(installation)
  drawCopy(installation, new Dice(options.seed + firstCopySeed))
  const everythingEnded = () => atWork === 0 && [...watch.jobs.values()].every(isFinished)
  kernel.runUntil(everythingEnded, profile.faultyMs)
  if (profile.mode === "liveness" && kernel.violation === undefined) endWell(installation, everythingEnded)
  if (kernel.violation === undefined) watch.everything("nothing")
  const jobs = [...watch.jobs.values()]
  return {
    seed: options.seed,
    profile,
    violation: kernel.violation,
    jobs: jobs.length + watch.removed.size,
    finished: jobs.filter(isFinished).length + watch.removed.size,
    elapsedMs: kernel.elapsedMs,
    coverage: coverage.counts,
  }
}

/** Once faults stop, everything ends within a limit, and nothing is left over. */
const endWell = (installation: Installation, everythingEnded: () => boolean): void => {
  const { blobs, kernel, profile, watch } = installation
  heal(installation)
  if (!kernel.runUntil(everythingEnded, boundMs(profile)) && kernel.violation === undefined) {
    const open = [...watch.jobs.values()].filter((job) => !isFinished(job)).map((job) => job.id)
    kernel.violate("everything ends", `not within ${boundMs(profile)} ms: ${open.join(", ") || "a caller waits"}`)
    return
  }
  // The sweeps that are under way may have looked too early, or still wait for a slow answer; the next ones see everything.
  const { leaseDurationMs, orphanIntervalMs, pruneIntervalMs } = profile.settings
  const slowestAnswerMs = profile.faults.slow > 0 ? 2 * leaseDurationMs : 0
  // And a process that has just started waits for as long as a sweep is apart from the next, for others to object.
  kernel.runUntil(() => false, 2 * slowestAnswerMs + 5 * Math.max(orphanIntervalMs, pruneIntervalMs))
  // Expired data is purged continuously, so a purge may be pending at any time, but none may stay pending.
  // One that has failed often waits for the longest pause.
  const retriedWithinMs = purgePauseMs(Number.MAX_SAFE_INTEGER) + 4 * pruneIntervalMs
  if (!kernel.runUntil(() => installation.duePurges === 0, retriedWithinMs) && kernel.violation === undefined)
    kernel.violate("purges are retried until done", `${installation.duePurges} are still due`)
  if (kernel.violation === undefined) blobs.nothingIsLeftOver()
  if (kernel.violation === undefined) installation.retention.nothingIsOverdue(3 * pruneIntervalMs)
}

/** Attempts, leases and backoffs of one job, the turns of all others before it, and the patience of callers: generous, but a bound. */
const boundMs = ({ callers, faultyMs, jobsPerCaller, providerMs, settings }: Profile): number => {
  const { attempts, leaseDurationMs, pollIntervalMs, runLimitMs, upload } = settings
  const longestWaitMs = Math.max(
    attempts.backoffMaxMs,
    attempts.retryAfterMaxMs,
    1.5 * settings.circuit.brokenPauseMaxMs,
  )
  const oneJobMs = 3 * providerMs + pollIntervalMs + approvalMs + restMs + 5_000
  const turnMs = callers * jobsPerCaller * oneJobMs
  const uploadMs = jobsPerCaller * upload.maxTransfers * (upload.transferLimitMs + upload.leaseDurationMs)
  const tries = attempts.maxFailures + attempts.maxLostWorkers
  return faultyMs + tries * (leaseDurationMs + longestWaitMs) + runLimitMs + turnMs + uploadMs + 60_000
}
