import { Effect } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import { withSubmitted } from "@kiln/core/domain"
import type { ClaimRef, Erasure } from "@kiln/core/ports"
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

const parkOn = ({ jobs }: typeof opened.stores, ref: ClaimRef, until?: number) =>
  run(
    jobs.deferJobs([
      { ...ref, delayMs: 0, countsAsFailure: false, park: { reason: "after", subject: "1", until }, record: undefined },
    ]),
  )

/** A job in somebody's hands that starts after another. `again`: it has looked before, and was parked until a time. */
const dependent = async (n: number, prerequisite: ClaimRef, again: boolean): Promise<ClaimRef> => {
  const kind = `dependent_${n}`
  const metadata = withSubmitted({}, { after: [prerequisite.jobId] })
  await run(opened.stores.jobs.createJobs([newJob(n, { kind, metadata })]))
  const first = await opened.claim(kind)
  const ref = { jobId: first.job.id, token: first.token }
  if (!again) return ref
  expect(await parkOn(opened.stores, ref, 0)).toEqual(["Written"])
  return { ...ref, token: (await opened.claim(kind)).token }
}

/** Milliseconds until the job can be claimed. */
const dueIn = async ({ jobId }: ClaimRef): Promise<number> => {
  const { rows } = await opened.client.query(
    `SELECT claimable_at - "kiln".store_time() AS due FROM "kiln".queue WHERE id = $1 AND NOT held`,
    [jobId],
  )
  return Number(rows[0]?.due)
}

it.each([
  [false, 20],
  [true, 22],
])("a job that is parked (again: %s) while its prerequisite is about to end goes on soon", async (again, n) => {
  const prerequisite = await opened.held(n, `prerequisite_${n}`)
  const waiting = await dependent(n + 1, prerequisite, again)
  const end = () => run(opened.stores.jobs.failJobs([{ ...prerequisite, errorCode: "internal_error" }]))
  const { outcomes } = await opened.meanwhile([end, () => parkOn(opened.others, waiting)], () => Promise.resolve())
  expect(outcomes.flat()).toEqual(["Written", "Written"])
  expect(await dueIn(waiting)).toBeLessThanOrEqual(50)
})

it.each([
  [false, 30],
  [true, 32],
])("the end of a prerequisite waits while a job is being parked on it (again: %s), and wakes it", async (again, n) => {
  const prerequisite = await opened.held(n, `prerequisite_${n}`)
  const waiting = await dependent(n + 1, prerequisite, again)
  const end = () => run(opened.stores.jobs.failJobs([{ ...prerequisite, errorCode: "internal_error" }]))
  const { outcomes } = await opened.meanwhile([() => parkOn(opened.others, waiting), end], () => Promise.resolve())
  expect(outcomes.flat()).toEqual(["Written", "Written"])
  expect(await dueIn(waiting)).toBeLessThanOrEqual(0)
})
