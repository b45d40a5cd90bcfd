import {
  type AudioContainer,
  type AudioFormat,
  BlobUnavailable,
  containerMatches,
  limits,
  SNIFF_BYTES,
  sniffContainer,
} from "@kiln/core/domain"
import { MediaProbe, MediaUnreadable } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PartitionedSemaphore from "effect/PartitionedSemaphore"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { type Measure, type Measurement, unreadable } from "./Measurement.ts"
import { afterId3, measureMp3 } from "./mp3/measureMp3.ts"
import { measureMp4 } from "./mp4/measureMp4.ts"
import { measureWav } from "./wav/measureWav.ts"
import { measureWebm } from "./webm/measureWebm.ts"
import { TooMuchWork, type Walk, Work } from "./Work.ts"

/** Timeout for one chunk from the blob store. */
const STALL_LIMIT_SECONDS = 30

/** Content that is held in memory at the same time, in MiB: two files of the largest size, or many small ones. */
const MEMORY_MIB = 64

const measures: Readonly<Record<AudioContainer, Measure>> = {
  mp3: measureMp3,
  mp4: measureMp4,
  wav: measureWav,
  webm: measureWebm,
}

/**
 * Measures audio by following its container as a decoder does. Nothing is decoded.
 *
 * A file is held in memory while it is measured; up to 64 MiB of files are. Files are measured one at a time in slices of a few
 * milliseconds, and projects take turns, so a project with many expensive files delays another one by a single file.
 *
 * The content is always read to the end: damage to a blob is detected only there, and must be reported as `BlobCorrupt` rather than
 * as an unreadable file of the caller. A stalled store is reported as `BlobUnavailable` for the same reason.
 */
export const layer: Layer.Layer<MediaProbe> = Layer.effect(
  MediaProbe,
  Effect.gen(function* () {
    const memory = yield* PartitionedSemaphore.make<string>({ permits: MEMORY_MIB })
    const processor = yield* PartitionedSemaphore.make<string>({ permits: 1 })
    return MediaProbe.of({
      probe: ({ bytes, content, format, project = "" }) => {
        if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > limits.uploadBytes)
          return Effect.die(new TypeError(`bytes must be an integer from 0 to ${limits.uploadBytes}: ${bytes}`))
        const mebibytes = Math.min(MEMORY_MIB, Math.ceil(bytes / 2 ** 20) + 1)
        return readAll(content, bytes).pipe(
          Effect.flatMap((file) => measured(format, file).pipe(processor.withPermits(project, 1))),
          memory.withPermits(project, mebibytes),
        )
      },
    })
  }),
)

/**
 * Reads the content to its end. Fails with `BlobUnavailable` if it is longer than stated, because only that much memory was
 * reserved.
 */
const readAll = <E>(content: Stream.Stream<Uint8Array, E>, bytes: number) =>
  Effect.gen(function* () {
    const file = new Uint8Array(bytes)
    let length = 0
    yield* content.pipe(
      Stream.timeoutOrElse({
        duration: `${STALL_LIMIT_SECONDS} seconds`,
        orElse: () => Stream.fail(new BlobUnavailable({ operation: "probe", cause: new Error("the content stalled") })),
      }),
      Stream.runForEach((chunk) =>
        Effect.sync(() => {
          if (length + chunk.length <= bytes) file.set(chunk, length)
          length += chunk.length
        }),
      ),
    )
    if (length <= bytes) return file.subarray(0, length)
    const cause = new Error(`the content has ${length} bytes instead of ${bytes}`)
    return yield* Effect.fail(new BlobUnavailable({ operation: "probe", cause }))
  })

const measured = Effect.fnUntraced(function* (format: AudioFormat, file: Uint8Array) {
  const random = yield* Random.Random
  const work = new Work(() => random.nextDoubleUnsafe())
  const walk = measureAs(format, file, work)
  const measurement = yield* Effect.suspend(function next(): Effect.Effect<Measurement> {
    const step = stepOf(walk)
    if (step.done) return Effect.succeed(step.value)
    return Effect.flatMap(Effect.yieldNow, () => {
      work.resume()
      return Effect.suspend(next)
    })
  })
  if (measurement instanceof MediaUnreadable) return yield* measurement
  // Sums of fractions exceed a whole second by their rounding, and a started second is billed.
  return { seconds: measurement.seconds && Math.round(measurement.seconds * 1e6) / 1e6 }
})

const stepOf = (walk: Walk<Measurement>): IteratorResult<undefined, Measurement> => {
  try {
    return walk.next()
  } catch (cause) {
    if (cause instanceof TooMuchWork) return { done: true, value: unreadable("too many small parts") }
    throw cause
  }
}

/** Measures the file as `format`, after its first bytes have confirmed that container. */
function* measureAs(format: AudioFormat, file: Uint8Array, work: Work): Walk<Measurement> {
  const start = yield* afterId3(file, work)
  // An MP3 may go on with the rest of a tag whose stated length is wrong.
  const container = sniffContainer(file.subarray(start, start + SNIFF_BYTES)) ?? (start > 0 ? "mp3" : undefined)
  if (container === undefined || !containerMatches(format, container))
    return unreadable(`declared as ${format}, but the file is ${container ?? "in no known container"}`)
  return yield* measures[container](file, work)
}
