import type { EngineSettings } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { Effect } from "effect"
import { principal } from "./harness.ts"
import { openBoard, readJob, submitSpeech } from "./jobs.ts"

/** The caller that submits the live jobs of the provider tests. */
export const live = principal("live")
export const open = openBoard({ input_characters: "0.000015", input_audio_seconds: "0.1", output_tokens: "0.1" })
/** Pauses that can be told apart, and are soon over. */
export const settings: Partial<EngineSettings> = {
  circuit: {
    maxFailures: 3,
    failingPauseMs: 10_000,
    failingPauseMaxMs: 40_000,
    brokenPauseMs: 60_000,
    brokenPauseMaxMs: 120_000,
  },
}

export const submitMany = (count: number, prefix = "k") =>
  Effect.forEach(Array.from({ length: count }), (_, n) => submitSpeech(`${prefix}${n}`, live))
export const statusesOf = (jobs: ReadonlyArray<{ readonly id: string }>) =>
  Effect.forEach(jobs, ({ id }) => Effect.map(readJob(id, live), ({ status }) => status))
export const allDone = (jobs: ReadonlyArray<{ readonly id: string }>) =>
  Effect.map(statusesOf(jobs), (statuses) => statuses.every((status) => status === "done"))
export const standingOf = (provider: string) =>
  Effect.flatMap(Worker, (worker) =>
    Effect.map(worker.providers, (all) => all.find((standing) => standing.provider === provider)),
  )
