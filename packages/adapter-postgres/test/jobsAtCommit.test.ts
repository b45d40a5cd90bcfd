import { Effect } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import type { Erasure } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { until } from "./faults/support/until.ts"
import { openStanding } from "./support/standAtCommit.ts"

const { maxTransfers, newJob, newUpload, newUploadJob, ownerOf, projectId, uploadedFile, uploadId } = fixtures

let opened: Awaited<ReturnType<typeof openStanding>>
beforeAll(async () => {
  opened = await openStanding()
})
afterAll(() => opened.close())

const run = Effect.runPromise

const finished = async (n: number): Promise<Erasure> => {
  const ref = await opened.held(n, `finished_${n}`)
  await run(opened.stores.jobs.failJobs([{ ...ref, errorCode: "internal_error" }]))
  return { jobId: ref.jobId, principal: ownerOf(newJob(n)) }
}

it("near the queue cap, a process waits for another's commit", async () => {
  const capped = (n: number) => newJob(n, { kind: "capped", projectId: projectId(2), queueCap: 1 })
  const create = [opened.stores, opened.others].map(
    ({ jobs }, index) =>
      () =>
        run(jobs.createJobs([capped(100 + index)])),
  )
  const { outcomes } = await opened.meanwhile(create, () => Promise.resolve())
  expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(["Created", "QueueFull"])
})

it("of two concurrent erasures, one erases", async () => {
  const erasure = await finished(1)
  const erase = [opened.stores, opened.others].map(
    ({ jobs }) =>
      () =>
        run(jobs.eraseJobs([erasure])),
  )
  const { outcomes } = await opened.meanwhile(erase, () => Promise.resolve())
  expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(["Erased", "AlreadyErased"])
})

it.each(["expireData", "deleteJobs"] as const)("%s skips a job that is being erased", async (verb) => {
  await run(opened.stores.jobs.deleteJobs(0, 10))
  const mine = await finished(verb === "expireData" ? 4 : 5)
  const { outcomes, result } = await opened.meanwhile([() => run(opened.stores.jobs.eraseJobs([mine]))], () =>
    run(opened.others.jobs[verb](0, 10)),
  )
  expect(result).toEqual({ count: 0, purges: [] })
  expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(["Erased"])
})

/** An upload that has arrived. */
const received = async (n: number, usableForMs: number) => {
  const { uploads } = opened.stores
  const id = uploadId(n)
  await run(uploads.createUploads([newUpload(n, { usableForMs })]))
  const claimed = await run(uploads.claimUpload({ uploadId: id, leaseDurationMs: 60_000, maxTransfers }))
  if (claimed._tag !== "Claimed") throw new Error(claimed._tag)
  const { token } = claimed
  await run(uploads.completeUpload({ uploadId: id, token, file: uploadedFile(id, token) }))
  return id
}

it("an upload is not swept while a job is about to consume it", async () => {
  const id = await received(1, 1_500)
  const create = () => run(opened.stores.jobs.createJobs([newUploadJob(1_001, { uploadId: id })]))
  const { outcomes, result } = await opened.meanwhile([create], async () => {
    const due = `SELECT FROM "kiln".uploads WHERE usable_until <= "kiln".store_time()`
    await until(async () => ((await opened.client.query(due)).rowCount === 1 ? true : undefined))
    return run(opened.others.uploads.expireUploads(10))
  })
  expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(["Created"])
  expect(result).toEqual({ count: 0, purges: [] })
})

it("of two concurrent jobs with one upload, one is told that it is used", async () => {
  const id = await received(2, 60_000)
  const create = [opened.stores, opened.others].map(
    ({ jobs }, index) =>
      () =>
        run(jobs.createJobs([newUploadJob(1_002 + index, { uploadId: id })])),
  )
  const { outcomes } = await opened.meanwhile(create, () => Promise.resolve())
  expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(["Created", "UploadRefused"])
})
