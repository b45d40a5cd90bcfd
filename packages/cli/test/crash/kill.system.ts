import { describe, expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import { audit, putBlob } from "./support/audit.ts"
import { expectSpokenOnce, speechKey } from "./support/expectations.ts"
import { Lab, patience } from "./support/Lab.ts"
import { pauseAfterJointClaim, pauseBeforeCommit } from "./support/pauses.ts"

describe("a worker killed in a provider call", patience, () => {
  it("costs its job an attempt: the next process finishes it, once", async () => {
    await using lab = await Lab.open()
    const killed = await lab.start()
    const jobId = await killed.client.speak("hold@1")
    await lab.attemptBegun(jobId, 1)
    await killed.crash()
    expect(await lab.job(jobId), "nobody gave it back").toMatchObject({ status: "processing", held: true, attempts: 1 })

    const next = await lab.start()
    expect(await next.client.finished(jobId)).toMatchObject({ status: "done" })
    await expectSpokenOnce(lab, jobId, { clients: [next.client], lostWorkers: 1 })
    expect(lab.calls(jobId).map(({ attempt, event, pid }) => [event, attempt, pid])).toEqual([
      ["begun", 1, killed.pid],
      ["begun", 2, next.pid],
      ["ended", 2, next.pid],
    ])
  })

  it("leaves all its jobs to another running process", async () => {
    await using lab = await Lab.open()
    const killed = await lab.start()
    const jobIds = await Promise.all(Array.from({ length: 5 }, () => killed.client.speak("hold@1")))
    await Promise.all(jobIds.map((id) => lab.attemptBegun(id, 1)))
    const other = await lab.start()
    expect(jobIds.flatMap((id) => lab.begun(id)).map(({ pid }) => pid)).toEqual(jobIds.map(() => killed.pid))
    await killed.crash()
    for (const id of jobIds) {
      await other.client.finished(id)
      await expectSpokenOnce(lab, id, { clients: [other.client], lostWorkers: 1 })
      expect(lab.begun(id).map(({ attempt, pid }) => [attempt, pid])).toEqual([
        [1, killed.pid],
        [2, other.pid],
      ])
    }
  })
})

describe("a worker killed between blob and commit", patience, () => {
  it("leaves a blob that is collected, and a job that the next worker finishes", async () => {
    await using lab = await Lab.open()
    const before = await lab.start()
    const earlier = await before.client.speak("Good morning.")
    await before.client.finished(earlier)
    await before.crash()
    lab.hold("before commit")
    // Sweeps without pause, and runs no jobs: nobody takes this one over before its worker is killed.
    const sweeper = await lab.start({ engine: { orphanIntervalMs: 20 }, env: { KILN_ROLE: "api" } })
    const killed = await lab.start({ edits: [pauseBeforeCommit] })
    const jobId = await killed.client.speak("Hello.")
    await lab.reached("before commit")
    expect((await lab.job(jobId)).files, "named by nobody").toEqual([])
    const kept = speechKey(earlier, 1)
    // Of a job that is done and names another file.
    const orphan = `${kept}2`
    await putBlob(lab.dataDirectory, orphan)
    await until(() => (lab.blobs().includes(orphan) ? undefined : true))
    expect(lab.blobs().toSorted(), "a sweep takes what nobody can commit, and only that").toEqual(
      [kept, speechKey(jobId, 1)].toSorted(),
    )
    await killed.crash()

    const next = await lab.start()
    expect(await next.client.finished(jobId)).toMatchObject({ status: "done" })
    await expectSpokenOnce(lab, jobId, { clients: [next.client, sweeper.client], lostWorkers: 1 })
    expect(lab.begun(jobId).map(({ pid }) => pid)).toEqual([killed.pid, next.pid])
    await until(() => (lab.blobs().length === 2 ? true : undefined))
    expect(lab.blobs().toSorted()).toEqual([kept, speechKey(jobId, 2)].toSorted())
    const { chargedJobs, ...found } = await audit(lab)
    expect(found).toMatchObject({ damaged: [], unnamed: [] })
    expect(chargedJobs.toSorted()).toEqual([earlier, jobId].toSorted())
  })
})

describe("a server killed after it created and claimed a job in one commit", patience, () => {
  it("leaves a lease that ends: the repeated request finds the job, and the next process runs it, once", async () => {
    await using lab = await Lab.open()
    lab.hold("created and claimed")
    const killed = await lab.start({ edits: [pauseAfterJointClaim] })
    const refused = killed.client.post("/v1/audio/speech", { input: "Hello." }, "the-key").then(
      ({ status }) => status,
      () => undefined,
    )
    await lab.reached("created and claimed")
    const [row] = (await lab.store.rows()).jobs
    expect(row).toMatchObject({ idempotencyKey: "the-key", status: "processing", held: true, attempts: 1 })
    await killed.crash()
    expect(await refused, "the caller had no answer").toBe(undefined)

    const next = await lab.start()
    const repeated = await next.client.post("/v1/audio/speech", { input: "Hello." }, "the-key")
    const { id } = (await repeated.json()) as { readonly id: string }
    expect([repeated.status, id]).toEqual([202, row?.id])
    expect(await next.client.finished(id)).toMatchObject({ status: "done" })
    await expectSpokenOnce(lab, id, { clients: [next.client], lostWorkers: 1 })
    expect(lab.calls(id).map(({ attempt, event, pid }) => [event, attempt, pid])).toEqual([
      ["begun", 2, next.pid],
      ["ended", 2, next.pid],
    ])
  })
})
