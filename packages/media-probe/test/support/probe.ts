import type { AudioFormat, BlobCorrupt, BlobUnavailable } from "@kiln/core/domain"
import { MediaProbe } from "@kiln/core/ports"
import { MediaProbeLive } from "@kiln/media-probe"
import { Effect, Stream } from "effect"

/** Probes a stream as what its uploader said it is. */
export const probeStream = (
  format: AudioFormat,
  content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>,
  bytes = 0,
) => MediaProbe.use((probe) => probe.probe({ format, bytes, content })).pipe(Effect.provide(MediaProbeLive.layer))

/** Probes bytes, delivered in chunks of one size (all at once by default). */
export const probeBytes = (format: AudioFormat, file: Uint8Array, chunkBytes = Math.max(1, file.length)) =>
  probeStream(format, Stream.fromIterable(chunksOf(file, chunkBytes)), file.length)

/** Seconds, or `undefined` where there is no length. */
export const secondsOf = (format: AudioFormat, file: Uint8Array, chunkBytes?: number) =>
  Effect.map(probeBytes(format, file, chunkBytes), (info) => info.seconds)

/** Why a file is not readable; dies when it is. */
export const reasonOf = (format: AudioFormat, file: Uint8Array) =>
  Effect.flip(probeBytes(format, file)).pipe(
    Effect.map((error) => (error._tag === "MediaUnreadable" ? error.reason : error._tag)),
    Effect.orDie,
  )

/** To be read as often as one likes, as a blob is. */
const chunksOf = (file: Uint8Array, chunkBytes: number): Iterable<Uint8Array> => ({
  *[Symbol.iterator]() {
    for (let at = 0; at < file.length; at += chunkBytes) yield file.slice(at, at + chunkBytes)
  },
})
