import * as Effect from "effect/Effect"
import type { StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore } from "@kiln/core/ports"
import { surveyOrphans } from "@kiln/core/worker"
import { adoptionAdvice } from "../installation/copiedProblem.ts"
import { describeOrphans } from "../orphans.ts"
import { type Check, ok, problem, warning } from "./Check.ts"

const name = "orphans"

/** Shows which orphaned files the next sweep would remove, and whether the database may sweep at all. */
export const checkOrphans = (
  store: StoreInspection,
): Effect.Effect<Check, StoreUnavailable | BlobUnavailable, BlobStore> =>
  Effect.map(surveyOrphans(store), (survey) => {
    const { exceedsShare, kept, removable } = survey
    if (exceedsShare)
      return problem(name, {
        summary: describeOrphans(survey),
        remedy: "check that this is the right database, then run kiln blobs sweep --force",
      })
    if (kept.unknown + kept.ahead > 0)
      return warning(name, {
        summary: describeOrphans(survey),
        remedy:
          "after a restore from a backup, nothing: the files are kept. Otherwise, see whether this is the newest database",
      })
    return removable.length === 0
      ? ok(name, "a sweep would remove nothing")
      : ok(name, `the next sweep removes ${describeOrphans(survey)}`)
  }).pipe(
    Effect.catchTag("StoreBehindBlobs", ({ entries, generation }) =>
      Effect.succeed(
        problem(name, {
          summary: `the database knows generations up to ${generation} and is behind the blob store: it is an older copy, or another copy is in use`,
          remedy: adoptionAdvice,
          findings: entries.map((entry) => ({ message: `the blob store has the entry ${entry}`, details: { entry } })),
        }),
      ),
    ),
  )
