import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { placeSecret, type StoreInspection } from "@kiln/core/ports"
import { comparePlaces } from "@kiln/core/worker"
import { adoptionAdvice } from "../installation/copiedProblem.ts"
import { type Check, ok, problem } from "./Check.ts"

const name = "copy"

/** Checks that the records are where they were last used. */
export const checkCopy = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const place = yield* store.readPlace
    if (place === undefined) return ok(name, "not checked (KILN_COPIES=allow)")
    const { found, isSame, recorded } = comparePlaces(yield* store.findSecret(placeSecret), place)
    if (isSame) return ok(name, recorded === undefined ? `not used yet, in ${found}` : `the original, in ${found}`)
    return problem(name, {
      summary: `the database is a copy: it was last used in ${recorded}, and is now in ${found}; kiln serve does not start`,
      remedy: adoptionAdvice,
    })
  })
