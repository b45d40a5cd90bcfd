import { sql } from "kysely"
import type { StoredLineage } from "@kiln/core/ports"
import { idBody, type JobId, type UploadId } from "@kiln/core/domain"
import type { Session } from "../Session.ts"
import { type Given, query, statement, storeTime } from "../Statement.ts"

/** One statement, and so one moment. */
export const storedLineage = statement(() =>
  query
    .selectNoFrom((select) => [
      storeTime.as("now"),
      select.selectFrom("jobs").select("id").orderBy("id", "desc").limit(1).as("newestJob"),
      select.selectFrom("uploads").select("id").orderBy("id", "desc").limit(1).as("newestUpload"),
      select.selectFrom("blob_lineage").select("version").as("version"),
      select.selectFrom("blob_lineage").select("document").as("document"),
    ])
    .$castTo<{
      readonly now: number
      readonly newestJob: JobId | null
      readonly newestUpload: UploadId | null
      readonly version: number | null
      readonly document: string | null
    }>(),
)

/** Of several processes that write the first version only one inserts its row. */
const insertLineage = statement((given: Given<{ document: string }>) =>
  query
    .insertInto("blob_lineage")
    .values({ id: 1, version: 1, document: given.document })
    .onConflict((conflict) => conflict.column("id").doNothing()),
)

const replaceLineage = statement((given: Given<{ version: number; document: string }>) =>
  query
    .updateTable("blob_lineage")
    .set({ version: sql<number>`version + 1`, document: given.document })
    .where("version", "=", given.version),
)

export const readLineage = async (session: Session): Promise<StoredLineage> => {
  const row = await session.get(storedLineage, {})
  if (row === undefined) throw new TypeError("a statement without a table returned no row")
  const ids = [row.newestJob, row.newestUpload].flatMap((id) => (id === null ? [] : [idBody(id)]))
  return { version: row.version ?? 0, document: row.document, now: row.now, newestId: ids.toSorted().at(-1) ?? null }
}

export const writeLineage = async (session: Session, version: number, document: string): Promise<boolean> =>
  version === 0
    ? (await session.run(insertLineage, { document })) > 0
    : (await session.run(replaceLineage, { version, document })) > 0
