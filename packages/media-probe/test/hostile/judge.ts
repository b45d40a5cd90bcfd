import type { AudioFormat } from "@kiln/core/domain"
import { Cause, Effect, Exit } from "effect"
import { probeBytes } from "../support/probe.ts"

/** The chunk size of stores. */
const CHUNK_BYTES = 65_536

/** The probe's answer about one file, and its cost. */
export interface Probed {
  readonly outcome: "measured" | "refused" | "died"
  /** Measured seconds; 0 for a refused file. */
  readonly seconds: number
  /** Reason for the refusal, or the exception. */
  readonly reason: string
  /** CPU time of this thread. */
  readonly cpuMs: number
}

/** Milliseconds of this thread's CPU time, so that other processes do not count. */
export const workedMs = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (system + user) / 1000
}

/** Probes a file. Any exception other than `MediaUnreadable` is an outcome, not an error. */
export const probe = async (format: AudioFormat, file: Uint8Array): Promise<Probed> => {
  const began = workedMs()
  const exit = await Effect.runPromiseExit(probeBytes(format, file, CHUNK_BYTES))
  const cpuMs = workedMs() - began
  if (Exit.isSuccess(exit)) {
    const seconds = exit.value.seconds
    return typeof seconds === "number" && seconds >= 0
      ? { outcome: "measured", seconds, reason: "", cpuMs }
      : { outcome: "died", seconds: 0, reason: `not a duration: ${String(seconds)}`, cpuMs }
  }
  const error: unknown = Cause.squash(exit.cause)
  if (typeof error === "object" && error !== null && "_tag" in error && error._tag === "MediaUnreadable")
    return { outcome: "refused", seconds: 0, reason: "reason" in error ? String(error.reason) : "", cpuMs }
  return { outcome: "died", seconds: 0, reason: error instanceof Error ? (error.stack ?? "") : String(error), cpuMs }
}

/** The smallest share of what plays that must be measured, and the seconds that may be missing on top. */
const SHARE = 0.95
const SPARE_SECONDS = 0.1

/** Returns whether a measurement is long enough to bill what plays. */
export const isEnough = (measured: number, played: number): boolean => measured >= SHARE * played - SPARE_SECONDS
