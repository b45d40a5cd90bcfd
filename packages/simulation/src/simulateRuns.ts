import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SimulatedStores } from "./Installation.ts"
import type { SimulationMode } from "./Profile.ts"
import { requiredCoverage } from "./Coverage.ts"
import { simulate, type SimulationOutcome } from "./simulate.ts"

export interface SimulationRuns {
  /** Each build opens empty stores whose verbs return synchronously. */
  readonly layer: Layer.Layer<SimulatedStores, unknown>
  /** The first; the others follow it one by one. */
  readonly seed: number
  readonly runs: number
  readonly mode?: SimulationMode | undefined
  /** Jobs of one run; drawn from its seed unless given. */
  readonly jobs?: number | undefined
  readonly trace?: ((line: string) => void) | undefined
  /** Told after every run. */
  readonly onRun?: ((soFar: SimulationSummary) => void) | undefined
}

/** The outcome of a set of runs, which ends with the first broken promise. */
export interface SimulationSummary {
  readonly runs: number
  readonly jobs: number
  readonly finished: number
  /** The run that broke a promise. */
  readonly broken: SimulationOutcome | undefined
  /** States that a set of this kind must reach and this one did not. */
  readonly unreached: ReadonlyArray<string>
}

/** Simulates one seed after the other, each with new stores. */
export const simulateRuns = Effect.fnUntraced(function* (options: SimulationRuns) {
  const reached = new Set<string>()
  let summary: SimulationSummary = { runs: 0, jobs: 0, finished: 0, broken: undefined, unreached: requiredCoverage }
  while (summary.runs < options.runs && summary.broken === undefined) {
    const outcome = yield* Effect.scoped(
      Effect.map(Layer.build(Layer.fresh(options.layer)), (stores) =>
        simulate(stores, { ...options, seed: options.seed + summary.runs }),
      ),
    )
    for (const state of outcome.coverage.keys()) reached.add(state)
    summary = {
      runs: summary.runs + 1,
      jobs: summary.jobs + outcome.jobs,
      finished: summary.finished + outcome.finished,
      broken: outcome.violation === undefined ? undefined : outcome,
      unreached: requiredCoverage.filter((state) => !reached.has(state)),
    }
    options.onRun?.(summary)
  }
  return summary
})

/** Describes a broken promise and how to reproduce it. */
export const describeBroken = ({ seed, violation }: SimulationOutcome): string =>
  `seed ${seed} broke "${violation?.invariant ?? ""}" after ${(violation?.atMs ?? 0) / 1_000} s of virtual time: ${violation?.detail ?? ""}`
