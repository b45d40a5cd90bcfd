import {
  type AudioContainer,
  type AudioFormat,
  type BlobCorrupt,
  BlobUnavailable,
  containerMatches,
  SNIFF_BYTES,
  sniffContainer,
} from "@kiln/core/domain"
import { MediaProbe, MediaUnreadable } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ByteCursor, type Scan } from "./ByteCursor.ts"
import { type Measure, type Measurement, type SecondLook, unreadable } from "./Measurement.ts"
import { mp3Duration } from "./mp3Duration.ts"
import { mp4Duration } from "./mp4Duration.ts"
import { wavDuration } from "./wavDuration.ts"
import { webmDuration } from "./webmDuration.ts"

/** Timeout for one chunk from the blob store. */
const STALL_LIMIT_SECONDS = 30

/** Number of bytes measured before yielding to the event loop. */
const SLICE_BYTES = 16_384

const measures: Readonly<Record<AudioContainer, Measure>> = {
  mp3: mp3Duration,
  mp4: mp4Duration,
  wav: wavDuration,
  webm: webmDuration,
}

/**
 * Measures audio by walking its container while the bytes stream in. Nothing is decoded, and little more than one chunk
 * is held in memory.
 *
 * The content is always read to the end, even when the result is clear: damage to a blob is detected only there, and must
 * be reported as `BlobCorrupt` rather than as an unreadable file of the caller. A stalled store is reported as
 * `BlobUnavailable` for the same reason. Some containers need a second pass over the content.
 */
export const layer: Layer.Layer<MediaProbe> = Layer.succeed(
  MediaProbe,
  MediaProbe.of({
    probe: Effect.fnUntraced(function* ({ content, format }) {
      const first = yield* readWith(content, (cursor) => measureAs(format, cursor))
      const measurement =
        "secondLook" in first.answer ? yield* lookAgain(content, first.bytes, first.answer) : first.answer
      return measurement instanceof MediaUnreadable ? yield* measurement : measurement
    }),
  }),
)

type Content = Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>

/** Runs a scan over the content, one slice at a time. */
const readWith = Effect.fnUntraced(function* <A>(content: Content, scanOf: (cursor: ByteCursor) => Scan<A>) {
  const cursor = new ByteCursor()
  let bytes = 0
  const scan = scanOf(cursor)
  let step = scan.next()
  yield* content.pipe(
    Stream.timeoutOrElse({
      duration: `${STALL_LIMIT_SECONDS} seconds`,
      orElse: () => Stream.fail(new BlobUnavailable({ operation: "probe", cause: new Error("the content stalled") })),
    }),
    Stream.runForEach(
      Effect.fnUntraced(function* (chunk) {
        bytes += chunk.length
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
  return { answer: step.value, bytes }
})

/** Reads the content again. A stream that is shorter the second time would make the recording appear too short, so it fails. */
const lookAgain = Effect.fnUntraced(function* (content: Content, bytes: number, { secondLook }: SecondLook) {
  const second = yield* readWith(content, secondLook)
  if (second.bytes === bytes) return second.answer
  return yield* Effect.fail(
    new BlobUnavailable({ operation: "probe", cause: new Error("the content differs when read again") }),
  )
})

/** Measures the file as `format`, after its first bytes have confirmed that container. */
function* measureAs(format: AudioFormat, cursor: ByteCursor): Scan<Measurement | SecondLook> {
  yield* cursor.need(SNIFF_BYTES)
  const container = sniffContainer(cursor.bytes(0, SNIFF_BYTES))
  if (container === undefined || !containerMatches(format, container))
    return unreadable(`declared as ${format}, but the file is ${container ?? "in no known container"}`)
  return yield* measures[container](cursor)
}
