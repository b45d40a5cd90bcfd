import { MediaProbe, MediaUnreadable } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

type ProbedFile = Parameters<MediaProbe["Service"]["probe"]>[0]

/** The measurement of a file: seconds, `undefined` without a duration, or `"unreadable"`. */
export type FakeMeasurement = number | undefined | "unreadable"

export interface FakeMediaProbe {
  readonly layer: Layer.Layer<MediaProbe>
  /** Sets the measurement of all further files. */
  readonly measures: (measurement: FakeMeasurement) => void
  /** Returns the probed files, in order. */
  readonly probed: () => ReadonlyArray<Pick<ProbedFile, "format" | "bytes">>
}

/** Creates a probe that returns the test's measurement, for files that need not be audio. Reads them to the end, like the real one. */
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
            ? yield* new MediaUnreadable({ reason: "made unreadable by the test" })
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
