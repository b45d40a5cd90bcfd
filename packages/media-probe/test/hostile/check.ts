import { isEnough, probe } from "./judge.ts"
import type { HostileFormat, Materials } from "./materials.ts"
import { makeVariant, type Variant } from "./mutate.ts"
import type { Oracle } from "./Oracle.ts"

/** The verdict about one variant. */
export interface Finding extends Omit<Variant, "bytes"> {
  readonly verdict: "refused" | "right" | "short" | "died" | "hung"
  readonly measured: number
  readonly played: number
  /** True if ffmpeg was stopped by the time limit. */
  readonly isSlow: boolean
  /** Reason for the refusal, or the exception. */
  readonly reason: string
  readonly cpuMs: number
}

/** Makes a variant, probes it and, if the probe measured it, compares the measurement with ffmpeg. */
export const check = async (
  materials: Materials,
  oracle: Oracle,
  variant: { readonly format: HostileFormat; readonly seed: number; readonly index: number },
): Promise<Finding> => {
  const { bytes, ...about } = makeVariant(materials, variant.format, variant.seed, variant.index)
  const { outcome, seconds: measured, ...probed } = await probe(about.format, bytes)
  if (outcome !== "measured") return { ...about, ...probed, measured, verdict: outcome, played: 0, isSlow: false }
  const { isSlow, seconds: played } = await oracle.play(bytes, about.format, about.sha256)
  return { ...about, ...probed, measured, verdict: isEnough(measured, played) ? "right" : "short", played, isSlow }
}
