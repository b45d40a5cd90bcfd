import type { AudioFormat, BlobCorrupt, BlobUnavailable } from "@kiln/core/domain"
import type { AudioInput, ProviderCall } from "@kiln/core/providers"
import { Stream } from "effect"

export const callWith = (failures: number): ProviderCall => ({
  jobId: "job_00000000000000000000000000",
  attempt: failures + 1,
  failures,
  deferrals: 0,
})

export const firstCall = callWith(0)

export const audio = (
  format: AudioFormat,
  seconds: number,
  content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt> = Stream.make(Uint8Array.of(1, 2, 3)),
): AudioInput => ({ format, bytes: 3, seconds, content })
