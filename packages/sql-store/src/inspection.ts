import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { StoreInspection } from "@kiln/core/ports"
import { findLastEntry } from "./audit.ts"
import { listWorkers } from "./board.ts"
import { countDeliveries } from "./deliveries.ts"
import { listKeys } from "./keys.ts"
import { readLineage, readRetention } from "./lineage.ts"
import { firstBlobs, type namedBlobs } from "./namedBlobs.ts"
import { readDuePurges } from "./purges.ts"
import { listSchedules } from "./schedules.ts"
import { findSecret } from "./secrets.ts"
import type { Transactions } from "./Sql.ts"
import { findUploadOrphans } from "./uploadSweeps.ts"

/** Rows per page: a listing never blocks the store for long. */
const pageSize = 500

/** The checks that are the same on both databases. */
export const commonChecks = (read: Transactions["read"], { isNamed, listNamedBlobs }: ReturnType<typeof namedBlobs>) =>
  ({
    namedBlobs: Stream.paginate(firstBlobs, (cursor) =>
      Effect.map(
        read("inspect.namedBlobs", (tx) => listNamedBlobs(tx, cursor, pageSize)),
        ({ blobs, next }) => [blobs, Option.fromUndefinedOr(next)] as const,
      ),
    ),
    isNamed: (blob) => read("inspect.isNamed", (tx) => isNamed(tx, blob)),
    readRetention: read("inspect.readRetention", readRetention),
    duePurges: read("inspect.duePurges", readDuePurges),
    findSecret: (name) => read("inspect.findSecret", (tx) => findSecret(tx, name)),
    listKeys: read("inspect.listKeys", listKeys),
    findLastChange: (action) => read("inspect.findLastChange", (tx) => findLastEntry(tx, action)),
    listSchedules: read("inspect.listSchedules", listSchedules),
    countDeliveries: read("inspect.countDeliveries", countDeliveries),
    listWorkers: read("inspect.listWorkers", listWorkers),
    readLineage: read("inspect.readLineage", readLineage),
    findUploadOrphans: (blobs) => read("inspect.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  }) satisfies Partial<StoreInspection>
