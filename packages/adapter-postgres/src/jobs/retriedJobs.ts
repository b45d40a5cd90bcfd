import type { Job } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Session } from "../connection/Session.ts"
import { isOfOwner, owned } from "./jobRow.ts"
import { batchStatement, integer, query } from "../Statement.ts"

/** A failed job that still has its data, locked until the transaction ends. */
export interface RetriedJob extends Pick<Job, "id" | "status" | "errorCode" | "retained" | "uploadId"> {
  readonly seq: number
}

/** Locks failed jobs of these owners that still have their data, so that neither data nor upload is taken meanwhile. In the order in which erasures lock jobs. */
const lockRetried = batchStatement(owned, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.on(isOfOwner))
    .innerJoin("results", "results.job_seq", "jobs.seq")
    .select([
      "jobs.id",
      "jobs.seq",
      "results.status",
      "results.error_code as errorCode",
      "results.retained",
      "jobs.upload_id as uploadId",
      "item.ord",
    ])
    .where("results.status", "=", "failed")
    .where("results.retained", "=", "kept")
    .orderBy("jobs.id")
    .forNoKeyUpdate(["results", "jobs"]),
)

const detach = batchStatement({ seq: integer() }, (item) =>
  query.updateTable("jobs").from(item).set({ upload_id: null }).whereRef("jobs.seq", "=", "item.seq"),
)

/** Locks the jobs that items retry, and returns them by the index of the item. */
export const lockedRetried = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
): Promise<ReadonlyMap<number, RetriedJob>> => {
  const retries = items.flatMap(({ keyId, mode, projectId, retryOf: id }, index) =>
    id === null ? [] : [{ index, item: { id, projectId, keyId, mode } }],
  )
  const rows = await session.batch(
    lockRetried,
    retries.map(({ item }) => item),
  )
  return new Map(
    rows.flatMap(({ ord, ...job }) => retries.slice(ord - 1, ord).map(({ index }) => [index, job] as const)),
  )
}

/** Gives the uploads of failed jobs to their retries. A trigger checks that these take them in the same transaction. */
export const detachRetried = (
  session: Session,
  rows: ReadonlyArray<{ readonly retried: RetriedJob | undefined }>,
): Promise<number> =>
  session.runBatch(
    detach,
    rows.flatMap(({ retried }) => (retried === undefined || retried.uploadId === null ? [] : [retried])),
  )
