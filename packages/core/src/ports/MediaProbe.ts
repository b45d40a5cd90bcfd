import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { AudioFormat, BlobCorrupt, BlobUnavailable } from "../domain/index.ts"

/** The file is not decodable audio of a known container. */
export class MediaUnreadable extends Data.TaggedError("MediaUnreadable")<{ readonly reason: string }> {}

export interface MediaInfo {
  /** `undefined` if this probe does not measure; the declared duration is used then. */
  readonly seconds: number | undefined
}

/** Measures the duration of an uploaded audio file. */
export class MediaProbe extends Context.Service<
  MediaProbe,
  {
    readonly probe: (file: {
      readonly format: AudioFormat
      readonly bytes: number
      /** Projects take turns when several files wait to be measured. */
      readonly project?: string
      readonly content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>
    }) => Effect.Effect<MediaInfo, MediaUnreadable | BlobUnavailable | BlobCorrupt>
  }
>()("@kiln/core/ports/MediaProbe") {}
