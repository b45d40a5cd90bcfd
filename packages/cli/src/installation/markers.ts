import { Effect, Stream } from "effect"
import type { BlobUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"

/** The secret under which a store keeps which installation it is. */
export const installationSecret = "installation"
/** What marks a blob store: no file of a job or an upload, so no sweep looks there. */
const root = "installation"
/** More than two are never needed to say that something is wrong. */
const mostMarkers = 10

/** The key of an installation's marker. */
export const markerOf = (installationId: string): string => `${root}/${installationId}`

/** The markers a blob store carries: one, once it was used; none, when it is empty or was used before there were any. */
export const readMarkers: Effect.Effect<ReadonlyArray<string>, BlobUnavailable, BlobStore> = Effect.flatMap(
  BlobStore,
  (blobs) => Stream.runCollect(Stream.take(blobs.list(root), mostMarkers)),
)

/** The markers that are not this installation's. */
export const foreignMarkers = (installationId: string, markers: ReadonlyArray<string>): ReadonlyArray<string> =>
  markers.filter((marker) => marker !== markerOf(installationId))
