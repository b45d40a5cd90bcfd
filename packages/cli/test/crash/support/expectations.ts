import { expect } from "vitest"
import { type Job, jobBlobKey } from "@kiln/core/domain"
import { speechBytes } from "../fixtures/CallScript.ts"
import { audit } from "./audit.ts"
import type { Client } from "./Client.ts"
import type { Lab } from "./Lab.ts"

/** The token of a job's n-th claim, when every claim before was lost: each took one number. */
export const speechKey = (jobId: string, token: number): string => jobBlobKey(jobId as Job["id"], token, "audio")

const inputLength = ({ request }: Job): number =>
  typeof request?.["input"] === "string" ? request["input"].length : -1

/**
 * Everything that a live speech job must be which ended once, done, after losing this many workers: its budgets, its one
 * charge, its one file, and the bytes of the attempt that won, over HTTP from each of these processes.
 */
export const expectSpokenOnce = async (
  lab: Lab,
  jobId: string,
  { clients, lostWorkers }: { readonly clients: ReadonlyArray<Client>; readonly lostWorkers: number },
): Promise<void> => {
  const job = await lab.job(jobId)
  expect(job).toMatchObject({
    status: "done",
    held: false,
    claimableAt: null,
    attempts: lostWorkers + 1,
    lostWorkers,
    failures: 0,
    errorCode: null,
  })
  expect(job.charge?.lineItems.map(({ meter, quantity }) => [meter, quantity])).toEqual([
    ["input_characters", inputLength(job)],
  ])
  expect(job.files.map((file) => file.blobKey)).toEqual([speechKey(jobId, lostWorkers + 1)])
  for (const client of clients) {
    const bytes = await client.audio(jobId)
    expect(Buffer.from(bytes).equals(speechBytes(jobId, job.attempts)), "the winner's bytes").toBe(true)
  }
  const { chargedJobs, damaged } = await audit(lab)
  expect(chargedJobs.filter((id) => id === jobId)).toEqual([jobId])
  expect(damaged).toEqual([])
}
