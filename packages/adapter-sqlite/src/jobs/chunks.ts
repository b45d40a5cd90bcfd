import { isFinished } from "@kiln/core/domain"
import type { ChunkPage, ChunkQuestion, ChunkWrite, FencedOutcome } from "@kiln/core/ports"
import { decodeJson } from "@kiln/sql-store"
import { assign, select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const heldJob = statement((given: Given<Values<"jobs", "id" | "token">>) =>
  query
    .selectFrom("jobs")
    .select("seq")
    .where("id", "=", given.id)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.token),
)

const insertChunk = statement((given: Given<Values<"chunks", "job_seq" | "position" | "attempt" | "value">>) =>
  query
    .insertInto("chunks")
    .values(assign(given, "job_seq", "position", "attempt", "value"))
    .onConflict((conflict) => conflict.doNothing()),
)

export const appendChunks = (tx: Transaction, items: ReadonlyArray<ChunkWrite>): ReadonlyArray<FencedOutcome> =>
  items.map(({ attempt, first, jobId: id, token, values }) => {
    const job = tx.get(heldJob, { id, token })
    if (job === undefined) return "LeaseLost"
    for (const [place, value] of values.entries())
      tx.run(insertChunk, { jobSeq: job.seq, position: first + place, attempt, value: JSON.stringify(value) })
    return "Written"
  })

const jobStatus = statement((given: Given<Values<"jobs", "id">>) =>
  query.selectFrom("jobs").select(["seq", "status"]).where("id", "=", given.id),
)

const chunksFrom = statement((given: Given<Values<"chunks", "job_seq" | "position"> & { readonly limit: number }>) =>
  query
    .selectFrom("chunks")
    .select(select("chunks", "position", "attempt", "value"))
    .where("job_seq", "=", given.jobSeq)
    .where("position", ">=", given.position)
    .orderBy("position")
    .limit(given.limit),
)

export const readChunks = (
  tx: Transaction,
  items: ReadonlyArray<ChunkQuestion>,
): ReadonlyArray<ChunkPage | undefined> =>
  items.map(({ from, jobId: id, limit }) => {
    const job = tx.get(jobStatus, { id })
    if (job === undefined) return undefined
    const rows = tx.all(chunksFrom, { jobSeq: job.seq, position: from, limit })
    const chunks = rows.map(({ attempt, position, value }) => ({
      index: position,
      attempt,
      value: decodeJson(value, `a chunk of ${id}`),
    }))
    return { chunks, isFinished: isFinished(job) }
  })
