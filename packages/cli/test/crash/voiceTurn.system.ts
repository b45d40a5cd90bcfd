import { createHash } from "node:crypto"
import { expect, it } from "vitest"
import { audit } from "./support/audit.ts"
import { wav } from "./support/Client.ts"
import { speechKey } from "./support/expectations.ts"
import { Lab, patience } from "./support/Lab.ts"
import { pauseAfterCheckpoint } from "./support/pauses.ts"

it.each(["transcribe", "reply"])(
  "a voice turn whose worker is killed after %s does not repeat that step",
  patience,
  async (step) => {
    await using lab = await Lab.open()
    lab.hold(`kept ${step}`)
    const killed = await lab.start({ edits: [pauseAfterCheckpoint] })
    const file = wav(7)
    const jobId = await killed.client.create("/v1/voice/turns", {
      upload_id: await killed.client.upload(file),
      max_output_tokens: 10,
    })
    await lab.reached(`kept ${step}`)
    const kept = step === "transcribe" ? ["transcribe"] : ["reply", "transcribe"]
    expect(Object.keys((await lab.job(jobId)).checkpoints).toSorted()).toEqual(kept)
    await killed.crash()

    const next = await lab.start()
    const done = await next.client.finished(jobId)
    const text = `heard ${createHash("sha256").update(file).digest("hex")}`
    expect(done).toMatchObject({ status: "done", output: { text }, billing: { status: "charged" } })
    expect(lab.begun(jobId).map(({ pid, provider }) => [provider, pid])).toEqual([
      ["transcription", killed.pid],
      ["reply", step === "transcribe" ? next.pid : killed.pid],
      ["speech", next.pid],
    ])
    const job = await lab.job(jobId)
    expect(job).toMatchObject({ attempts: 2, lostWorkers: 1, failures: 0, checkpoints: {} })
    expect(job.charge?.lineItems.map(({ meter, quantity }) => [meter, quantity])).toEqual([
      ["input_audio_seconds", 1],
      ["output_tokens", 3],
    ])
    expect(job.files.map(({ blobKey }) => blobKey)).toEqual([speechKey(jobId, 2)])
    expect(await audit(lab)).toMatchObject({ damaged: [], unnamed: [], chargedJobs: [jobId] })
  },
)
