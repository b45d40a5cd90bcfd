import { jsonArrayFrom } from "kysely/helpers/postgres"
import { type JobStatus, type PolledJob, progressIn, progressStep } from "@kiln/core/domain"
import { decodeCharge, decodeJson, decodePart } from "@kiln/sql-store"
import type { Session } from "../connection/Session.ts"
import { batchStatement, query, type RowOf } from "../Statement.ts"
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

/** Throws `UndecodableRow` where the row is damaged. */
const polledOf = (row: RowOf<typeof polledByOwner>): PolledJob => ({
  id: row.id,
  kind: row.kind,
  mode: row.mode,
  status: row.status,
  retained: row.retained,
  output: decodePart(row.output, "output", row.id),
  errorCode: row.errorCode,
  warningCode: row.warningCode,
  charge: decodeCharge(row.charge, row.id),
  price: row.currency === null ? null : { currency: row.currency },
  progress:
    row.progress === null ? null : progressIn(decodeJson(row.progress, `the progress of ${row.id}`), row.attempts),
  files: row.retained === "kept" ? row.files : [],
})

/** Reads jobs and their files in one statement, so from one snapshot. */
export const pollJobs = async (session: Session, items: OwnedJobs): Promise<ReadonlyArray<PolledJob | undefined>> => {
  const rows = new Map((await session.batch(polledByOwner, ownedBy(items))).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && polledOf(row)
  })
}
