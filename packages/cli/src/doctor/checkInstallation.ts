import * as Effect from "effect/Effect"
import { type BlobStore, placeSecret, type StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { comparePlaces } from "@kiln/core/worker"
import { compareBlobStore } from "../installation/claimBlobStore.ts"
import { unmarkedAdvice } from "../installation/layerInstallation.ts"
import { adoptionAdvice } from "../installation/copiedProblem.ts"
import { type Check, ok, problem, warning } from "./Check.ts"

const name = "installation"

/** Checks that records and blobs belong to one installation. */
export const checkInstallation = (
  store: StoreInspection,
): Effect.Effect<Check, StoreUnavailable | BlobUnavailable, BlobStore> =>
  Effect.map(compareBlobStore(store), (standing) => {
    if (standing === "own") return ok(name, "records and blobs belong to the same installation")
    if (standing === "unmarked")
      return warning(name, {
        summary: "the blob store is not marked yet",
        remedy: "see whether KILN_BLOBS names the right, mounted place; the next kiln serve marks it",
      })
    return standing._tag === "UnmarkedBlobStore"
      ? problem(name, {
          summary: "the blob store is not the one that was used before: it has no marker of this installation",
          remedy: unmarkedAdvice,
        })
      : problem(name, {
          summary: "the blob store belongs to another installation",
          remedy: "correct DATABASE_URL, KILN_DATA_DIR or KILN_BLOBS, so that they name the same installation",
          findings: standing.markers.map((marker) => ({
            message: `the blob store is marked ${marker}`,
            details: { marker },
          })),
        })
  })

const copyName = "copy"

/** Checks that the records are where they were last used. */
export const checkCopy = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const place = yield* store.readPlace
    if (place === undefined) return ok(copyName, "not checked (KILN_COPIES=allow)")
    const { found, isSame, recorded } = comparePlaces(yield* store.findSecret(placeSecret), place)
    if (isSame) return ok(copyName, recorded === undefined ? `not used yet, in ${found}` : `the original, in ${found}`)
    return problem(copyName, {
      summary: `the database is a copy: it was last used in ${recorded}, and is now in ${found}; kiln serve does not start`,
      remedy: adoptionAdvice,
    })
  })
