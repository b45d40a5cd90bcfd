import * as Effect from "effect/Effect"
import { emptyLineage, encodeLineage } from "../domain/BlobLineage.ts"
import type { JobStore } from "../ports/index.ts"

/** Stores that this process has seen with a lineage. None loses it. */
const announced = new WeakSet<object>()

/**
 * Records in the store that it is used with a blob store, once, before the first blob is written: a process without blobs takes a
 * store that has no lineage for one whose jobs have no files (`noBlobs`). The entries of the lineage come later, with the first sweep.
 */
export const announceBlobs = (store: Pick<JobStore["Service"], "readLineage" | "writeLineage">) =>
  announced.has(store)
    ? Effect.void
    : Effect.gen(function* () {
        const { document, version } = yield* store.readLineage
        // If another process writes first, the store has one as well.
        if (document === null) yield* store.writeLineage(version, encodeLineage(emptyLineage))
        announced.add(store)
      })
