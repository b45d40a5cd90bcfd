import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type { StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { hasEntries, hasLineage } from "../installation/claimBlobStore.ts"
import { unmarkedAdvice } from "../installation/layerInstallation.ts"
import { foreignMarkers, installationSecret, readMarkers } from "../installation/markers.ts"
import { type Check, ok, problem, warning } from "./Check.ts"

const name = "installation"

/** Checks that records and blobs belong to one installation. */
export const checkInstallation = (
  store: StoreInspection,
): Effect.Effect<Check, StoreUnavailable | BlobUnavailable, BlobStore> =>
  Effect.gen(function* () {
    const secret = yield* store.findSecret(installationSecret)
    const markers = yield* readMarkers
    const foreign = foreignMarkers(secret === undefined ? "" : Hex.encode(secret), markers)
    if (foreign.length > 0)
      return problem(name, {
        summary: "the blob store belongs to another installation",
        remedy: "correct DATABASE_URL, KILN_DATA_DIR or KILN_BLOBS, so that they name the same installation",
        findings: foreign.map((marker) => ({ message: `the blob store is marked ${marker}`, details: { marker } })),
      })
    if (markers.length > 0) return ok(name, "records and blobs belong to the same installation")
    return secret !== undefined && hasLineage(yield* store.readLineage) && !(yield* hasEntries)
      ? problem(name, {
          summary: "the blob store is not the one that was used before: it has no marker of this installation",
          remedy: unmarkedAdvice,
        })
      : warning(name, {
          summary: "the blob store is not marked yet",
          remedy: "see whether KILN_BLOBS names the right, mounted place; the next kiln serve marks it",
        })
  })
