import type { AudioInput, ProviderCall } from "@kiln/core/providers"
import { Stream } from "effect"

/** A provider call like the engine's. */
export const call: ProviderCall = { jobId: "job_00000000000000000000000000", attempt: 1, failures: 0, deferrals: 0 }

/** A file in two pieces, as from a blob. */
export const audioInput = (format: AudioInput["format"], file: Uint8Array, seconds = 1): AudioInput => ({
  format,
  bytes: file.length,
  seconds,
  content: Stream.make(file.subarray(0, 1_000), file.subarray(1_000)),
})
