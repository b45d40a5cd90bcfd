import { jsonArrayFrom } from "kysely/helpers/postgres"
import { type JobStatus, type PolledJob, progressStep } from "@kiln/core/domain"
import { decodePolled } from "@kiln/sql-store"
import type { Session } from "../connection/Session.ts"
import { batchStatement, query } from "../Statement.ts"
import { type OwnedJobs, ownedBy } from "./findJobs.ts"
import { either, isOfOwner, owned, retained } from "./jobRow.ts"

/** The parts of a job that a poll shows, only to its owner. Everything else of a row costs this process more than the server. */
const polledByOwner = batchStatement(owned, (item) =>
  query
    .selectFrom("jobs")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .leftJoin("prices", "prices.id", "jobs.price_id")
    .innerJoin(item, (join) => join.on(isOfOwner))
    .select(["item.ord", "jobs.id", "jobs.mode", "jobs.kind", "prices.currency", "results.output", "results.charge"])
    .select(["results.error_code as errorCode", "results.warning_code as warningCode"])
    .select([
      either<JobStatus>("status").as("status"),
      either<number>("attempts").as("attempts"),
      retained.as("retained"),
    ])
    .select((select) => [
      jsonArrayFrom(
        select
          .selectFrom("files")
          .select(["files.id", "files.name"])
          .whereRef("files.job_seq", "=", "jobs.seq")
          .orderBy("files.seq"),
      ).as("files"),
      select
        .case()
        .when("queue.status", "=", "processing")
        .then(
          select
            .selectFrom("checkpoints")
            .select("value")
            .whereRef("checkpoints.job_id", "=", "jobs.id")
            .where("step", "=", progressStep),
        )
        .end()
        .as("progress"),
    ]),
)

/** Reads jobs and their files in one statement, so from one snapshot. */
export const pollJobs = async (session: Session, items: OwnedJobs): Promise<ReadonlyArray<PolledJob | undefined>> => {
  const rows = new Map((await session.batch(polledByOwner, ownedBy(items))).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && decodePolled(row, row.id, row.mode, row.retained === "kept" ? row.files : [])
  })
}
