import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { BlobUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"

/** Name of the secret that holds a store's installation id. */
export const installationSecret = "installation"
/** Prefix of markers in a blob store, outside of the prefixes of jobs and uploads, so that no sweep looks there. */
export const markerRoot = "installation"
/** Maximum number of markers to read; two are enough to detect a problem. */
const mostMarkers = 10

/** Returns the key of an installation's marker. */
export const markerOf = (installationId: string): string => `${markerRoot}/${installationId}`

/** Reads the markers of a blob store: one if it has been used, otherwise none. */
export const readMarkers: Effect.Effect<ReadonlyArray<string>, BlobUnavailable, BlobStore> = Effect.flatMap(
  BlobStore,
  (blobs) => Stream.runCollect(Stream.take(blobs.list(markerRoot), mostMarkers)),
)

/** Returns the markers of other installations. */
export const foreignMarkers = (installationId: string, markers: ReadonlyArray<string>): ReadonlyArray<string> =>
  markers.filter((marker) => marker !== markerOf(installationId))
