import type { Completion, FencedOutcome } from "@kiln/core/ports"
import type { FileId } from "@kiln/core/domain"
import type { StateRow } from "./jobRow.ts"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"
import { endClaims } from "./endClaims.ts"

const insertFiles = batchStatement<
  { id: FileId; seq: number; name: string; blobKey: string; mediaType: string; bytes: number; sha256: string },
  {},
  unknown
>(
  { id: "text", seq: "bigint", name: "text", blobKey: "text", mediaType: "text", bytes: "bigint", sha256: "text" },
  (item) =>
    query
      .insertInto("files")
      .columns(["id", "job_seq", "name", "blob_key", "media_type", "bytes", "sha256"])
      .expression(
        query
          .selectFrom(item)
          .select(["item.id", "item.seq", "item.name", "item.blobKey", "item.mediaType", "item.bytes", "item.sha256"])
          .orderBy("item.ord"),
      ),
)

/** Completes jobs. A repeat writes nothing: the first call wrote everything, and the data may be erased by now. */
export const completeJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Completion>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const files: Array<Completion["files"][number] & { readonly seq: number }> = []
  const { outcomes } = await endClaims(
    tx,
    jobs,
    items.map((item) => ({
      jobId: item.jobId,
      token: item.token,
      endOf: () => ({ event: "completed", token: item.token }),
      resultOf: (job) => {
        for (const file of item.files) files.push({ ...file, seq: job.seq })
        return resultOf(job, item)
      },
    })),
  )
  tx.commitWith(tx.runBatch(insertFiles, files, {}))
  return outcomes
}

const resultOf = (job: StateRow, { charge, output, warningCode }: Completion) => {
  if ((job.mode === "live") !== (charge !== null))
    throw new TypeError(`a ${job.mode} job completes ${charge === null ? "with" : "without"} a charge: ${job.id}`)
  return { output: JSON.stringify(output), warningCode, charge: charge === null ? null : JSON.stringify(charge) }
}
