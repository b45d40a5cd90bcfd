import { defaultEngineSettings, type EngineSettings } from "@kiln/core/effect"
import { providerNames } from "@kiln/core/providers"
import type { JobKind } from "@kiln/core/kinds"
import type { Dice } from "./Dice.ts"

/** The frequency of each fault. Each run has some faults only, so that none hides another. */
export interface Faults {
  /** Of a call to a store: it never gets there. */
  readonly refused: number
  /** Of a call to a store: it happens, and the answer is lost. */
  readonly answerLost: number
  /** Of a call to a store: the answer takes up to twice a lease. */
  readonly slow: number
  /** Mean milliseconds between two outages of a store; 0 for none. */
  readonly outageEveryMs: number
  /** Mean milliseconds between two kills of a process; 0 for none. */
  readonly killEveryMs: number
  /** Mean milliseconds between two graceful stops; 0 for none. */
  readonly stopEveryMs: number
  /** Mean milliseconds between two suspensions of a process; 0 for none. */
  readonly freezeEveryMs: number
  /** Mean milliseconds between two jumps of the store's clock, forward; 0 for none. */
  readonly clockEveryMs: number
  /** Mean milliseconds between two changes of a switch; 0 for none. */
  readonly switchEveryMs: number
  /** The maximum error of a process's wall clock. */
  readonly clockOffsetMs: number
  /** Probability that a provider's call fails, temporarily or permanently. */
  readonly providerFails: number
  /** Of a provider's call: no answer ever. */
  readonly providerHangs: number
  /** Probability that a provider returns an invalid answer. */
  readonly providerTalksNonsense: number
  /** Probability that a provider's call reports the provider as broken. */
  readonly providerBreaks: number
  /** Probability that a caller disconnects before the response. */
  readonly callerGoesAway: number
}

export interface Profile {
  /** `safety`: faults until the end. `liveness`: they stop, and everything must end. */
  readonly mode: "safety" | "liveness"
  /** Milliseconds with faults. */
  readonly faultyMs: number
  /** Processes that answer callers, run jobs, or both. */
  readonly processes: ReadonlyArray<{ readonly serves: boolean; readonly works: boolean }>
  readonly projects: number
  readonly callers: number
  readonly jobsPerCaller: number
  /** Milliseconds between a request to a store and its step, and again until the answer, at most. */
  readonly latencyMs: number
  /** Milliseconds a provider takes, at most. */
  readonly providerMs: number
  readonly settings: EngineSettings
  readonly faults: Faults
}

export type SimulationMode = Profile["mode"]

const seconds = 1_000
const minutes = 60 * seconds

/** Draws the profile of a run from its seed. */
export const drawProfile = (
  dice: Dice,
  options: { readonly mode?: SimulationMode | undefined; readonly jobs?: number | undefined },
): Profile => {
  const leaseDurationMs = dice.pick([2, 5, 10, 30]) * seconds
  const latencyMs = dice.pick([0, 0, 2, 20, 200])
  const processes = drawProcesses(dice)
  const callers = dice.between(1, 4)
  const jobs = options.jobs ?? dice.between(8, 24)
  return {
    mode: options.mode ?? dice.pick(["liveness", "liveness", "safety"]),
    faultyMs: dice.between(20, 90) * seconds,
    processes,
    projects: dice.between(1, 3),
    callers,
    jobsPerCaller: Math.ceil(jobs / callers),
    latencyMs,
    providerMs: dice.pick([10, 500, 3_000, leaseDurationMs, 2 * leaseDurationMs]),
    settings: drawSettings(dice, leaseDurationMs),
    faults: drawFaults(dice),
  }
}

/** At least one that serves and one that works; one to five in all. */
const drawProcesses = (dice: Dice): Profile["processes"] => {
  const roles = Array.from({ length: dice.between(0, 4) }, () =>
    dice.pick([
      { serves: true, works: true },
      { serves: false, works: true },
      { serves: true, works: false },
    ]),
  )
  return [{ serves: true, works: true }, ...roles]
}

const drawSettings = (dice: Dice, leaseDurationMs: number): EngineSettings => ({
  ...defaultEngineSettings,
  upload: {
    ...defaultEngineSettings.upload,
    leaseDurationMs: dice.pick([2, 10]) * seconds,
    stallLimitMs: 10 * seconds,
    transferLimitMs: 30 * seconds,
    transferWindowMs: dice.pick([30 * seconds, 15 * minutes]),
    usableForMs: dice.pick([60 * seconds, 60 * minutes]),
    maxTransfers: dice.pick([2, 5]),
  },
  leaseDurationMs,
  claimCheckIntervalMs: dice.pick([1, 5, 60]) * seconds,
  concurrency: dice.pick([1, 2, 8]),
  pollIntervalMs: dice.pick([1, 5]) * seconds,
  drainMs: dice.pick([0, 2, 10]) * seconds,
  queueLimitMs: dice.pick([40 * seconds, 10 * minutes, 60 * minutes]),
  runLimitMs: dice.pick([20 * seconds, 2 * minutes, 30 * minutes]),
  attempts: { ...defaultEngineSettings.attempts, backoffMaxMs: 10 * seconds, retryAfterMaxMs: 20 * seconds },
  providers: drawBounds(dice),
  circuit: {
    maxFailures: dice.pick([2, 5]),
    failingPauseMs: 500,
    failingPauseMaxMs: 4 * seconds,
    brokenPauseMs: 2 * seconds,
    brokenPauseMaxMs: 8 * seconds,
  },
  queueCap: dice.pick([0, 0, 4]),
  dataRetentionMs: dice.pick([0, 30 * seconds, 30 * minutes]),
  jobRetentionMs: dice.pick([0, 0, 60 * seconds, 60 * minutes]),
  sweepIntervalMs: 4 * seconds,
  pruneIntervalMs: 10 * seconds,
  idlePruneIntervalMs: 20 * seconds,
  orphanIntervalMs: 15 * seconds,
  orphanGraceMs: 30 * seconds,
  blobWatchIntervalMs: 5 * seconds,
})

/** Limits of the whole installation, in a quarter of the runs; in the others, a project has its share of each worker's slots. */
export const drawLimits = (dice: Dice, kinds: ReadonlyArray<JobKind>): EngineSettings["limits"] =>
  dice.chance(0.75)
    ? defaultEngineSettings.limits
    : {
        perKind: dice.pick<EngineSettings["limits"]["perKind"]>([
          {},
          ...kinds.map(({ name }) => ({ [name]: dice.between(1, 2) })),
        ]),
        perProject: dice.pick([0, 1, 2, 4, "share"]),
      }

/** Every fault is in about half of the runs. */
const drawBounds = (dice: Dice): EngineSettings["providers"] => {
  const draw = () => ({ concurrency: dice.pick([0, 0, 1, 2]), callLimitMs: dice.pick([5, 30, 600]) * seconds })
  return Object.fromEntries(providerNames.map((name) => [name, draw()])) as EngineSettings["providers"]
}

const drawFaults = (dice: Dice): Faults => {
  const often = (...values: readonly [number, ...ReadonlyArray<number>]) => (dice.chance(0.5) ? 0 : dice.pick(values))
  return {
    refused: often(0.01, 0.1),
    answerLost: often(0.01, 0.1),
    slow: often(0.005, 0.05),
    outageEveryMs: often(30 * seconds),
    killEveryMs: often(8 * seconds, 30 * seconds),
    stopEveryMs: often(20 * seconds),
    freezeEveryMs: often(8 * seconds, 30 * seconds),
    clockEveryMs: dice.chance(0.8) ? 0 : 20 * seconds,
    switchEveryMs: often(15 * seconds),
    clockOffsetMs: often(1, 60 * minutes, 24 * 60 * minutes),
    providerFails: often(0.1, 0.4),
    providerHangs: often(0.02),
    providerTalksNonsense: often(0.1),
    providerBreaks: often(0.05),
    callerGoesAway: often(0.1, 0.4),
  }
}

export const noFaults: Faults = {
  refused: 0,
  answerLost: 0,
  slow: 0,
  outageEveryMs: 0,
  killEveryMs: 0,
  stopEveryMs: 0,
  freezeEveryMs: 0,
  clockEveryMs: 0,
  switchEveryMs: 0,
  clockOffsetMs: 0,
  providerFails: 0,
  providerHangs: 0,
  providerTalksNonsense: 0,
  providerBreaks: 0,
  callerGoesAway: 0,
}
