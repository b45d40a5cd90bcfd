import {
  type AudioContainer,
  type AudioFormat,
  BlobUnavailable,
  containerMatches,
  SNIFF_BYTES,
  sniffContainer,
} from "@kiln/core/domain"
import { MediaProbe, MediaUnreadable } from "@kiln/core/ports"
import { Effect, Layer, Stream } from "effect"
import { ByteCursor, type Scan } from "./ByteCursor.ts"
import { type Measure, type Measurement, unreadable } from "./Measurement.ts"
import { mp3Duration } from "./mp3Duration.ts"
import { mp4Duration } from "./mp4Duration.ts"
import { wavDuration } from "./wavDuration.ts"
import { webmDuration } from "./webmDuration.ts"

/** How long the blob store may take for one chunk. */
const STALL_LIMIT_SECONDS = 30

/** What is measured between two turns of the event loop. */
const SLICE_BYTES = 16_384

const measures: Readonly<Record<AudioContainer, Measure>> = {
  mp3: mp3Duration,
  mp4: mp4Duration,
  wav: wavDuration,
  webm: webmDuration,
}

/**
 * Measures audio by walking its container while it streams by; nothing is decoded and at most a chunk is held.
 *
 * The content is always read to its end, also when the answer is clear: a damaged blob says so only there, and it must be
 * `BlobCorrupt`, not a caller's unreadable file. A store that stalls is `BlobUnavailable` for the same reason.
 */
export const layer: Layer.Layer<MediaProbe> = Layer.succeed(
  MediaProbe,
  MediaProbe.of({
    probe: Effect.fnUntraced(function* ({ content, format }) {
      const cursor = new ByteCursor()
      const scan = measureAs(format, cursor)
      let step = scan.next()
      yield* content.pipe(
        Stream.timeoutOrElse({
          duration: `${STALL_LIMIT_SECONDS} seconds`,
          orElse: () =>
            Stream.fail(new BlobUnavailable({ operation: "probe", cause: new Error("the content stalled") })),
        }),
        Stream.runForEach(
          Effect.fnUntraced(function* (chunk) {
            for (let at = 0; at < chunk.length && !step.done; at += SLICE_BYTES) {
              cursor.push(chunk.subarray(at, at + SLICE_BYTES))
              step = scan.next()
              yield* Effect.yieldNow
            }
          }),
        ),
      )
      cursor.end()
      while (!step.done) step = scan.next()
      const measurement = step.value
      return measurement instanceof MediaUnreadable ? yield* measurement : measurement
    }),
  }),
)

/** Lets the container measure itself once its first bytes prove that it is the declared one. */
function* measureAs(format: AudioFormat, cursor: ByteCursor): Scan<Measurement> {
  yield* cursor.need(SNIFF_BYTES)
  const container = sniffContainer(cursor.bytes(0, SNIFF_BYTES))
  if (container === undefined || !containerMatches(format, container))
    return unreadable(`declared as ${format}, but the file is ${container ?? "none of the known containers"}`)
  return yield* measures[container](cursor)
}
