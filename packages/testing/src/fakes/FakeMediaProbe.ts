import { MediaProbe, MediaUnreadable } from "@kiln/core/ports"
import { Effect, Layer, Stream } from "effect"

type ProbedFile = Parameters<MediaProbe["Service"]["probe"]>[0]

/** What a file measures: so many seconds, `undefined` where it carries no length, or `"unreadable"`. */
export type FakeMeasurement = number | undefined | "unreadable"

export interface FakeMediaProbe {
  readonly layer: Layer.Layer<MediaProbe>
  /** From now on, files measure this. */
  readonly measures: (measurement: FakeMeasurement) => void
  /** What was probed, in order. */
  readonly probed: () => ReadonlyArray<Pick<ProbedFile, "format" | "bytes">>
}

/** A probe that says what a test tells it, for files that need not be audio. It reads them to their end, like the real one. */
export const makeFakeMediaProbe = (initially: FakeMeasurement): FakeMediaProbe => {
  let measurement = initially
  const probed: Array<Pick<ProbedFile, "format" | "bytes">> = []
  return {
    layer: Layer.succeed(
      MediaProbe,
      MediaProbe.of({
        probe: Effect.fnUntraced(function* ({ bytes, content, format }) {
          probed.push({ format, bytes })
          yield* Stream.runDrain(content)
          return measurement === "unreadable"
            ? yield* new MediaUnreadable({ reason: "the test says so" })
            : { seconds: measurement }
        }),
      }),
    ),
    measures: (next) => {
      measurement = next
    },
    probed: () => [...probed],
  }
}
