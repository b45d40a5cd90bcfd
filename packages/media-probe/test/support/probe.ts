import type { AudioFormat, BlobCorrupt, BlobUnavailable } from "@kiln/core/domain"
import { MediaProbe } from "@kiln/core/ports"
import { MediaProbeLive } from "@kiln/media-probe"
import { Effect, Stream } from "effect"

/** Probes a stream as the format declared by its uploader. */
export const probeStream = (
  format: AudioFormat,
  content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>,
  bytes = 1_048_576,
) => MediaProbe.use((probe) => probe.probe({ format, bytes, content })).pipe(Effect.provide(MediaProbeLive.layer))

/** Probes bytes, delivered in chunks of one size (all at once by default). */
export const probeBytes = (format: AudioFormat, file: Uint8Array, chunkBytes = Math.max(1, file.length)) =>
  probeStream(format, Stream.fromIterable(chunksOf(file, chunkBytes)), file.length)

/** Returns the duration in seconds, or `undefined` if it cannot be measured. */
export const secondsOf = (format: AudioFormat, file: Uint8Array, chunkBytes?: number) =>
  Effect.map(probeBytes(format, file, chunkBytes), (info) => info.seconds)

/** Returns why a file is not readable; dies if it is. */
export const reasonOf = (format: AudioFormat, file: Uint8Array) =>
  Effect.flip(probeBytes(format, file)).pipe(
    Effect.map((error) => (error._tag === "MediaUnreadable" ? error.reason : error._tag)),
    Effect.orDie,
  )

/** Returns chunks that can be read repeatedly, like a blob. */
const chunksOf = (file: Uint8Array, chunkBytes: number): Iterable<Uint8Array> => ({
  *[Symbol.iterator]() {
    for (let at = 0; at < file.length; at += chunkBytes) yield file.slice(at, at + chunkBytes)
  },
})
