import { idBody } from "@kiln/core/domain"
import type { StoredLineage } from "@kiln/core/ports"
import type { Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const lineage = statement(() => query.selectFrom("blob_lineage").select(["version", "document"]))

const newestJob = statement(() => query.selectFrom("jobs").select(({ fn }) => fn.max("id").as("id")))
const newestUpload = statement(() => query.selectFrom("uploads").select(({ fn }) => fn.max("id").as("id")))

const insertLineage = statement((given: Given<Values<"blob_lineage", "document">>) =>
  query.insertInto("blob_lineage").values({ id: 1, version: 1, document: given.document }),
)

const replaceLineage = statement((given: Given<Values<"blob_lineage", "version" | "document">>) =>
  query
    .updateTable("blob_lineage")
    .set((column) => ({ version: column("version", "+", 1), document: given.document }))
    .where("version", "=", given.version),
)

export const readLineage = (tx: Transaction): StoredLineage => {
  const { document, version } = tx.get(lineage, {}) ?? { document: null, version: 0 }
  const ids = [tx.get(newestJob, {}), tx.get(newestUpload, {})].flatMap((row) => (row?.id ? [idBody(row.id)] : []))
  return { version, document, now: tx.now, newestId: ids.toSorted().at(-1) ?? null }
}

/** The write lock is held from the lookup to the insertion, so only one of several processes is first. */
export const writeLineage = (tx: Transaction, version: number, document: string): boolean => {
  if (version > 0) return tx.run(replaceLineage, { version, document }) > 0
  return tx.get(lineage, {}) === undefined && tx.run(insertLineage, { document }) > 0
}
