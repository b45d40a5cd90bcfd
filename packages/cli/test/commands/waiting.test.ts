import * as Effect from "effect/Effect"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, providerBroken, providerPort, type StoreAdapter } from "@kiln/core"
import type { JobId } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import { JobDirectory } from "@kiln/core/ports"
import { until } from "@kiln/service-lab"
import { memoryBlobs } from "@kiln/testing"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { z } from "zod"
import { type Installation, installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

/** Answers only while its quota lasts. */
const translator = () => {
  const state = { hasQuota: true }
  const port = providerPort({
    name: "translator",
    check: (answer: unknown, _request: { readonly text: string }) => String(answer),
  })
  const translate = async ({ text }: { readonly text: string }) => {
    if (!state.hasQuota) throw providerBroken("quota", "402 from the translator")
    return text.toUpperCase()
  }
  return { port, state, translate }
}

const storeOf = ({ directory, env }: Installation): StoreAdapter => {
  const url = env["DATABASE_URL"]
  return url === undefined ? sqliteStore({ path: join(directory, "kiln.db") }) : postgresStore({ url })
}

/** A program with kinds that the command line does not know. */
const openProgram = async (installation: Installation, worker: boolean, tools = translator()) => {
  const { port, state, translate } = tools
  const translation = jobKind({
    name: "translation",
    request: z.object({ text: z.string() }),
    providers: [port],
    run: async ({ ask, request }) => ({ output: { text: await ask.translator(request) } }),
  })
  const flaky = jobKind({
    name: "flaky",
    request: z.object({ account: z.number() }),
    errorCodes: ["account_closed"],
    run: async ({ failure }) => {
      throw failure("account_closed", { message: "410 from the bank" })
    },
  })
  const parent = jobKind({
    name: "parent",
    request: z.object({}),
    run: async ({ children }) => {
      await children("parts", translation, [{ text: "a" }, { text: "b" }])
      return { output: {} }
    },
  })
  const engine = await createEngine({
    store: storeOf(installation),
    blobs: memoryBlobs(),
    kinds: [translation, flaky, parent],
    providers: { live: { translator: translate } },
    settings: { pollIntervalMs: 20, circuit: { brokenPauseMs: 600_000, brokenPauseMaxMs: 600_000 } },
    worker,
    log: false,
  })
  return { engine, state }
}

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)

describe.each(installations)("on %s", (_name, open) => {
  let installation: Installation
  beforeEach(async () => {
    installation = await open()
  })
  afterEach(() => installation[Symbol.asyncDispose]())

  const show = async (jobId: string) => {
    const { stdout } = await runInProcess(["job", "show", jobId], installation.env)
    const { waiting_for } = await jsonOf(["job", "show", jobId], installation.env)
    return { text: /^waiting_for +(.*)$/m.exec(stdout)?.[1], reasons: waiting_for }
  }

  it("job show says why a job waits, and job attempts what its attempts waited for", async () => {
    const { env } = installation
    const tools = translator()
    const { engine: submitter } = await openProgram(installation, false, tools)
    const job = await submitter.submit("translation", { text: "a" })
    expect(await show(job.id)).toEqual({
      text: "worker for translation: no worker is running",
      reasons: [expect.objectContaining({ reason: "no_worker", subject: "translation", cause: "none", until: null })],
    })
    expect(await jsonOf(["queue", "pause", "translation"], env)).toEqual({ type: "translation", paused: true })
    expect((await show(job.id)).text).toBe("type translation is paused: kiln queue resume translation")
    const stats = await runInProcess(["queue", "stats"], env)
    expect(stats.stdout).toMatch(/translation +live +1 +0 +0 +0 +0 +0 +paused; worker for translation: no worker/)

    tools.state.hasQuota = false
    await using program = await openProgram(installation, true, tools).then(({ engine }) => engine)
    await until(async () => ((await show(job.id)).reasons.length === 1 ? true : undefined))
    await jsonOf(["queue", "resume", "translation"], env)
    const paused = await until(async () => {
      const shown = await show(job.id)
      // The text was read before.
      return shown.reasons[0]?.reason === "provider_paused" ? show(job.id) : undefined
    })
    expect(paused.text).toMatch(/^provider translator: quota, next try \d{4}-.*Z$/)
    expect(paused.reasons[0]).toMatchObject({ subject: "translator", cause: "quota", until: time })
    expect(await jsonOf(["job", "attempts", job.id], env)).toEqual({
      job_id: job.id,
      attempts: [],
      waits: [
        {
          first_attempt: 1,
          last_attempt: 1,
          count: 1,
          first_at: time,
          last_at: time,
          reason: "provider",
          subject: "translator",
          cause: "quota",
        },
      ],
    })
    expect((await runInProcess(["job", "attempts", job.id], env)).stdout).toMatch(
      /^attempt 1 {2}\S+Z {2}waited for the provider translator \(quota\)\n$/,
    )
    // What the program asks has the same answer.
    expect(await program.operator.waitingFor(job)).toMatchObject([{ reason: "provider_paused", cause: "quota" }])
    expect((await program.operator.measureQueue())[0]?.heldBack).toMatchObject([{ reason: "provider_paused" }])

    const whole = await program.submit("parent", {})
    const waits = await until(async () => {
      const shown = await show(whole.id)
      return shown.reasons.some(({ reason }: { reason: string }) => reason === "children") ? show(whole.id) : undefined
    })
    expect(waits.text).toMatch(/^children: 2 unfinished/)
    await submitter.stop()
  })

  it("kinds that only other processes know are listed, paused, counted and retried; a mistyped one is refused", async () => {
    const { env } = installation
    const { engine } = await openProgram(installation, true)
    const job = await engine.submitAndWait("flaky", { account: 17 })
    await engine.stop()
    expect((await jsonOf(["job", "list", "--type", "flaky"], env)).jobs).toMatchObject([
      { job_id: job.id, error_code: "account_closed" },
    ])
    const pages = await jsonOf(["queue", "stats"], env)
    expect(pages.queues).toMatchObject([{ type: "flaky", failed_24h: 1 }])
    const retried = await jsonOf(["job", "retry", job.id, "--from-start"], env)
    expect(retried).toMatchObject({ retry_of: job.id, status: "queued", replayed: false })
    expect(await jsonOf(["job", "retry", job.id], env)).toMatchObject({ job_id: retried.job_id, replayed: true })
    // A process that knows the kind runs it, and finds the same retry.
    await using again = await openProgram(installation, true).then((program) => program.engine)
    expect((await again.operator.retry(job)).id).toBe(retried.job_id)
    const stored = JobDirectory.use((directory) => directory.readJobs([retried.job_id as JobId]))
    const [record] = await Effect.runPromiseWith(embeddedContext(again))(stored)
    expect(record?.metadata["kiln:submitted"]).toEqual({ fromStart: true })
    expect(await again.wait(retried.job_id)).toMatchObject({ status: "failed", errorCode: "account_closed" })
    expect(await again.get(job)).toMatchObject({ status: "failed", retriedAs: retried.job_id })

    const unknown = 'unknown job kind "flakey"; did you mean "flaky"?'
    for (const args of [
      ["job", "list", "--type", "flakey"],
      ["queue", "pause", "flakey"],
      ["queue", "resume", "flakey"],
      ["job", "cancel", "--type", "flakey", "--yes"],
    ])
      expect(await refusalOf(args, env, 2)).toContain(unknown)
    await using other = await createEngine({
      store: storeOf(installation),
      blobs: memoryBlobs(),
      kinds: [jobKind({ name: "other", request: z.object({}), run: async () => ({ output: {} }) })],
      worker: false,
      log: false,
    })
    expect((await other.operator.list({ kind: "flaky" })).jobs).toHaveLength(2)
    await other.operator.pause("flaky")
    expect((await other.operator.board()).pausedKinds).toEqual(["flaky"])
    await other.operator.resume("flaky")
    await expect(other.operator.pause("flakey")).rejects.toMatchObject({ code: "kind_unknown" })
  })

  it("jobs are listed, retried and canceled by code, tag, key and type, after a dry run", async () => {
    const { env } = installation
    const { engine } = await openProgram(installation, true)
    const failedIds: Array<string> = []
    for (const [account, tags] of [
      [1, ["nightly"]],
      [2, ["nightly", "eu"]],
      [3, []],
    ] as const) {
      const job = await engine.submit("flaky", { account }, { tags: [...tags] })
      failedIds.unshift((await engine.wait(job)).id)
    }
    const [, second, first] = failedIds
    await engine.stop()
    const ids = async (...args: ReadonlyArray<string>) =>
      (await jsonOf(["job", "list", ...args], env)).jobs.map((job: { job_id: string }) => job.job_id)
    expect(await ids("--error-code", "account_closed")).toEqual(failedIds)
    expect(await ids("--error-code", "job_timeout")).toEqual([])
    expect(await ids("--tag", "nightly")).toEqual([second, first])
    expect(await ids("--tag", "nightly", "--tag", "eu")).toEqual([second])
    expect(await ids("--error-code", "account_closed", "--limit", "2")).toEqual(failedIds.slice(0, 2))
    expect(await refusalOf(["job", "list", "--key", "mine"], env, 2)).toContain("--key must be the id of a key")

    const nightly = ["--error-code", "account_closed", "--tag", "nightly"]
    expect(await refusalOf(["job", "retry", ...nightly], env, 2)).toContain(
      "2 jobs would be retried: repeat with --yes",
    )
    expect(await jsonOf(["job", "retry", ...nightly, "--dry-run"], env)).toEqual({
      dry_run: true,
      matched: 2,
      complete: true,
      job_ids: [second, first],
    })
    expect(await ids("--status", "queued")).toEqual([])
    expect(await jsonOf(["job", "retry", ...nightly, "--yes"], env)).toMatchObject({
      matched: 2,
      retried: 2,
      refused: 0,
    })
    expect((await runInProcess(["job", "retry", ...nightly, "--yes"], env)).stdout).toBe(
      "0 jobs retried, 2 had been retried before, 0 refused\n",
    )
    const actions = async () =>
      (await jsonOf(["audit", "list"], env)).changes.map(
        ({ action, subject }: { action: string; subject: string }) => `${action} ${subject}`,
      )
    expect((await actions()).toSorted()).toEqual([first, second].map((id) => `job.retry ${id}`).toSorted())

    const queued = await ids("--status", "queued")
    expect(queued).toHaveLength(2)
    expect(await jsonOf(["job", "cancel", "--type", "flaky", "--dry-run"], env)).toMatchObject({ matched: 2 })
    expect(await jsonOf(["job", "cancel", "--type", "flaky", "--yes"], env)).toMatchObject({ canceled: 2, finished: 0 })
    expect(await ids("--error-code", "canceled_by_operator")).toEqual(queued)
    expect(await jsonOf(["job", "cancel", "--type", "flaky", "--yes"], env)).toMatchObject({ matched: 0, canceled: 0 })
    expect(await refusalOf(["job", "cancel"], env, 2)).toContain("needs a JOB_ID, or flags that select jobs")
    expect(await refusalOf(["job", "cancel", "--yes"], env, 2)).toContain("needs a JOB_ID, or flags that select jobs")
    expect(await refusalOf(["job", "retry", queued[0], "--tag", "x"], env, 2)).toContain("not both")
  })
})
