import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Completion } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import type { Database } from "../src/Database.ts"
import { everyState, storesOf } from "./support/arrangeJobs.ts"
import { countStatements } from "./support/countStatements.ts"

const { charge, jobId, outputFile, uploadedFile, uploadId } = fixtures

const rowsOf = ({ connection }: Database, sql: string): ReadonlyArray<unknown> => connection.prepare(sql).all([])

/** Rows written since the connection was opened, including those written by triggers. */
const rowsWritten = (database: Database) => rowsOf(database, "SELECT total_changes() AS n")

/** Job 7 of `everyState`, live and held. */
const completion: Completion = {
  jobId: jobId(7),
  token: 1,
  output: { text: "first" },
  files: [outputFile({ job: { id: jobId(7) }, token: 1 }, 7)],
  warningCode: null,
  charge,
}

it.effect("a repeat writes no row: one charge and one file stand, as the first try said", () =>
  Effect.gen(function* () {
    const database = yield* everyState
    const { jobs, uploads } = storesOf(database)
    const receipt = { uploadId: uploadId(5), token: 1, file: uploadedFile(uploadId(5), 1) }
    const released = { jobId: jobId(2), token: 1 }
    const all = Effect.gen(function* () {
      const other = { ...completion, output: { text: "second" }, charge: { ...charge, amount: "77" } }
      return [
        ...(yield* jobs.completeJobs([completion, { ...other, files: [] }, completion])),
        ...(yield* jobs.releaseJobs([released, released])),
        ...(yield* jobs.deferJobs([{ ...released, delayMs: 9_000, countsAsFailure: true }])),
        ...(yield* jobs.failJobs([{ jobId: jobId(5), token: 1, errorCode: "content_rejected" }])),
        yield* uploads.completeUpload(receipt),
      ]
    })
    expect(new Set(yield* all)).toEqual(new Set(["Written"]))
    const before = rowsWritten(database)
    expect(new Set(yield* all)).toEqual(new Set(["Written"]))
    expect(rowsWritten(database)).toEqual(before)
    expect(rowsOf(database, `SELECT amount FROM kiln_charges WHERE job_id = '${jobId(7)}'`)).toEqual([
      { amount: charge.amount },
    ])
    expect(rowsOf(database, "SELECT id FROM kiln_files WHERE blob_key LIKE '%7/1/audio'")).toEqual([
      { id: completion.files[0]?.id },
    ])
  }),
)

it.effect("the first end of a claim costs nothing extra: one statement per written row", () =>
  Effect.gen(function* () {
    const database = yield* everyState
    const { jobs, uploads } = storesOf(database)
    const counted = countStatements()
    yield* jobs.completeJobs([completion])
    expect(counted.take(), "its reservation; its row and its file's").toMatchObject({ reads: 1, writes: 2 })
    yield* jobs.releaseJobs([{ jobId: jobId(2), token: 1 }])
    expect(counted.take(), "the job; its row and its lane's").toMatchObject({ reads: 1, writes: 2 })
    yield* uploads.completeUpload({ uploadId: uploadId(5), token: 1, file: uploadedFile(uploadId(5), 1) })
    expect(counted.take()).toMatchObject({ reads: 0, writes: 1 })
    counted.end()
  }),
)
