import type { Job, JobId, JobMode, KeyId, ProjectId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** A failed job with its data, locked until the transaction ends. */
export interface RetriedJob extends Pick<Job, "id" | "status" | "retained" | "uploadId"> {
  readonly seq: number
}

/** Failed jobs of these owners, with their data; nobody erases them meanwhile, or takes what they had consumed. In the order in which erasures lock jobs. */
const lockRetried = batchStatement<
  { id: JobId; projectId: ProjectId; keyId: KeyId; mode: JobMode },
  {},
  RetriedJob & { readonly ord: number }
>({ id: "text", projectId: "text", keyId: "text", mode: "text" }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) =>
      join
        .onRef("item.id", "=", "jobs.id")
        .onRef("item.projectId", "=", "jobs.project_id")
        .onRef("item.keyId", "is not distinct from", "jobs.key_id")
        .onRef("item.mode", "=", "jobs.mode"),
    )
    .select(["jobs.id", "jobs.seq", "jobs.status", "jobs.retained", "jobs.upload_id as uploadId", "item.ord"])
    .where("jobs.status", "=", "failed")
    .where("jobs.retained", "=", "kept")
    .orderBy("jobs.id")
    .forNoKeyUpdate("jobs"),
)

const letGo = batchStatement<{ seq: number }, {}, unknown>({ seq: "bigint" }, (item) =>
  query.updateTable("jobs").from(item).set({ upload_id: null }).whereRef("jobs.seq", "=", "item.seq"),
)

/** The jobs that items are another try of, by the place of the item. */
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
    {},
  )
  return new Map(
    rows.flatMap(({ ord, ...job }) => retries.slice(ord - 1, ord).map(({ index }) => [index, job] as const)),
  )
}

/** What they had consumed is free for their retries, which take it in the same transaction: a trigger sees to it. */
export const letGoOfUploads = (session: Session, jobs: ReadonlyArray<RetriedJob>): Promise<number> =>
  session.runBatch(
    letGo,
    jobs.filter(({ uploadId }) => uploadId !== null).map(({ seq }) => ({ seq })),
    {},
  )
