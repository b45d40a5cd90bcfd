import { randomInt } from "node:crypto"
import type { SettingProblem } from "../Settings.ts"

/** Decides which traces are recorded. */
export interface Sampler {
  /** Whether the decision of a caller that sends a `traceparent` counts. */
  readonly followsCaller: boolean
  /** Share of traces to record, from 0 to 1. */
  readonly ratio: number
}

const known: Readonly<Record<string, Omit<Sampler, "ratio"> & { readonly ratio: number | "argument" }>> = {
  always_on: { followsCaller: false, ratio: 1 },
  always_off: { followsCaller: false, ratio: 0 },
  traceidratio: { followsCaller: false, ratio: "argument" },
  parentbased_always_on: { followsCaller: true, ratio: 1 },
  parentbased_always_off: { followsCaller: true, ratio: 0 },
  parentbased_traceidratio: { followsCaller: true, ratio: "argument" },
}

/** Parses `OTEL_TRACES_SAMPLER` and its argument. */
export const parseSampler = (name = "parentbased_always_on", argument = "1"): Sampler | SettingProblem => {
  const sampler = Object.hasOwn(known, name) ? known[name] : undefined
  if (sampler === undefined)
    return { setting: "OTEL_TRACES_SAMPLER", rule: `must be one of ${Object.keys(known).join(", ")}` }
  if (sampler.ratio !== "argument") return { followsCaller: sampler.followsCaller, ratio: sampler.ratio }
  const ratio = /^(0|1|0?\.\d+|[01]\.\d+)$/.test(argument) ? Number(argument) : NaN
  return ratio >= 0 && ratio <= 1
    ? { followsCaller: sampler.followsCaller, ratio }
    : { setting: "OTEL_TRACES_SAMPLER_ARG", rule: "must be a number from 0 to 1" }
}

const range = 2 ** 32

/** Decides for a new trace, whose id is as random. */
export const samplesNew = ({ ratio }: Sampler): boolean => ratio >= 1 || randomInt(range) < ratio * range

/** Decides for the trace of a caller: by its flag, or by its id, so that all services decide the same. */
export const samplesCaller = (
  { followsCaller, ratio }: Sampler,
  { sampled, traceId }: { readonly sampled: boolean; readonly traceId: string },
): boolean => (followsCaller ? sampled : Number.parseInt(traceId.slice(-8), 16) < ratio * range)
