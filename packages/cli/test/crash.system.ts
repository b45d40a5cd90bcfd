import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { Job, Principal } from "@kiln/core/domain"
import { configProblems } from "../src/KilnConfig.ts"
import slowSpeech from "./fixtures/slowSpeech.config.ts"
import { Api, type PolledJob } from "./support/Api.ts"
import { runJson, serve, temporaryDirectory, until } from "@kiln/service-lab"
import { storedJobs } from "./support/storedJobs.ts"

const count = (jobs: ReadonlyArray<PolledJob>, status: PolledJob["status"]): number =>
  jobs.filter((job) => job.status === status).length

/** The invariants of a finished job, however often its workers were killed. */
const expectFinishedOnce = (job: Job) => {
  expect(job).toMatchObject({ status: "done", held: false, claimableAt: null, failures: 0, errorCode: null })
  expect(job.files).toHaveLength(1)
  // No attempt but those whose worker was killed, and the one that finished it.
  expect(job.attempts).toBe(job.lostWorkers + (job.mode === "sandbox" ? 2 : 1))
}

describe("SIGKILL", () => {
  it("loses no job, and finishes and charges each job once", async () => {
    expect(configProblems(slowSpeech)).toEqual([])
    using data = temporaryDirectory()
    const env = {
      KILN_DATA_DIR: data.path,
      KILN_LEASE_SECONDS: "2",
      KILN_CONCURRENCY: "8",
      KILN_RATE_LIMITS: "off",
      KILN_CONFIG: join(import.meta.dirname, "fixtures/slowSpeech.config.ts"),
    }
    let kiln = await serve(env)
    const { first_key } = kiln.listening
    const flags = ["--project", "default", "--mode", "live", "--scope", "audio.create"]
    const live = await runJson(["key", "create", ...flags], env)
    await runJson(["price", "set", "svc-audio", "--input-character", "0.001"], env)
    await runJson(["price", "activate", "svc-audio"], env)
    for (const name of ["ai", "audio"]) await runJson(["switch", "on", name], env)

    const owner = (mode: Principal["mode"], keyId: string): Principal => ({
      keyId: keyId as Principal["keyId"],
      projectId: live.project_id,
      mode,
      scopes: [],
    })
    const liveCaller = {
      key: live.key as string,
      text: "Twenty-two characters.",
      owner: owner("live", live.key_id),
      jobs: 60,
    }
    const callers = [
      {
        key: first_key?.key ?? "",
        text: "sandbox:delay:0.3",
        owner: owner("sandbox", first_key?.key_id ?? ""),
        jobs: 140,
      },
      liveCaller,
    ]
    const create = async (caller: (typeof callers)[number]) => {
      const api = new Api(kiln.listening.url, caller.key)
      const texts = Array.from({ length: caller.jobs }, () => caller.text)
      return { ...caller, ids: await Promise.all(texts.map((text) => api.createSpeech(text))) }
    }
    const created = await Promise.all(callers.map(create))
    // More than there are slots, until both crashes are over: on any machine, some are running and some wait.
    const gate = join(data.path, "gate")
    created.push(await create({ ...liveCaller, text: `gate:${gate}`, jobs: 12 }))
    const jobCount = created.reduce((sum, { jobs }) => sum + jobs, 0)
    const poll = async () =>
      (await Promise.all(created.map(({ ids, key }) => new Api(kiln.listening.url, key).jobs(ids)))).flat()

    // Twice, so that jobs are hit in different places.
    let done = 0
    for (const atLeast of [8, 32]) {
      const jobs = await until(async () => {
        const polled = await poll()
        return count(polled, "done") >= atLeast && count(polled, "processing") > 0 ? polled : undefined
      })
      expect(count(jobs, "queued"), "some still wait").toBeGreaterThan(0)
      done = count(jobs, "done")
      await kiln.crash()
      kiln = await serve(env)
      expect(kiln.listening.first_key).toBeNull()
      expect(count(await poll(), "done"), "nothing finished is undone").toBeGreaterThanOrEqual(done)
    }

    writeFileSync(gate, "")
    const finished = await until(async () => {
      const polled = await poll()
      return count(polled, "done") + count(polled, "failed") === jobCount ? polled : undefined
    }, 60_000)
    expect(count(finished, "done")).toBe(jobCount)
    for (const job of finished) {
      const audio = await fetch(job.output?.audio_url ?? "")
      expect(audio.status).toBe(200)
      expect((await audio.arrayBuffer()).byteLength).toBeGreaterThan(1_000)
    }
    kiln.kill("SIGTERM")
    expect((await kiln.ended()).exit).toBe(0)

    let lost = 0
    for (const { ids, owner: theirs, text } of created) {
      const jobs = await storedJobs(data.path, theirs, ids)
      const amount = String(text.length / 1_000)
      expect(jobs).toHaveLength(ids.length)
      for (const job of jobs) {
        expectFinishedOnce(job)
        lost += job.lostWorkers
        expect(job.charge).toEqual(
          theirs.mode === "sandbox"
            ? null
            : {
                currency: "usd",
                amount,
                lineItems: [{ meter: "input_characters", quantity: text.length, unitAmount: "0.001", amount }],
              },
        )
      }
    }
    expect(lost, "the kills hit running jobs").toBeGreaterThan(0)
  })
})
