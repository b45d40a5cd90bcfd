import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fixtures } from "@kiln/conformance"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { isId, jobBlobKey, jobBlobPrefix } from "@kiln/core/domain"
import { BlobStore, JobStore } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { seedEveryState } from "../support/copiedRecords.ts"
import { installations, type Installation, sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const { jobId, newJob } = fixtures
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
const unknownId = "job_00000000000000000000000000"

/** Runs on the files of an installation. */
const onFiles = <A>({ directory }: Installation, work: Effect.Effect<A, unknown, BlobStore>): Promise<A> =>
  Effect.runPromise(Effect.provide(work, FileBlobStore.layer({ directory })))

const keyOf = (n: number): string => jobBlobKey(jobId(n), 1, "audio")

const putFile = (n: number) =>
  Effect.flatMap(BlobStore, (blobs) => blobs.put(keyOf(n), Stream.succeed(Uint8Array.of(1, 2, 3)), { maxBytes: 10 }))

const hasFile = (n: number) =>
  Effect.flatMap(BlobStore, (blobs) =>
    Effect.map(Stream.runCollect(blobs.list(jobBlobPrefix(jobId(n)))), (keys) => keys.includes(keyOf(n))),
  )

describe.each(installations)("kiln job on %s", (_name, open) => {
  it("list filters, counts and continues", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const ids = async (...args: ReadonlyArray<string>) =>
      (await jsonOf(["job", "list", ...args], env)).jobs.map((job: { job_id: string }) => job.job_id)
    const all = await ids()
    expect(all).toHaveLength(11)
    expect(await ids("--status", "failed")).toEqual([jobId(5)])
    expect((await ids("--status", "done")).toSorted()).toEqual([4, 6, 8, 9].map(jobId).toSorted())
    expect((await ids("--mode", "live")).toSorted()).toEqual([6, 7].map(jobId).toSorted())
    expect(await ids("--type", "image_generation")).toEqual([])
    expect(await ids("--from", "2100-01-01")).toEqual([])
    expect(await ids("--to", "2000-01-01")).toEqual([])
    expect(await ids("--project", "one", "--limit", "1000")).toEqual(all)
    expect(await ids("--key", fixtures.keyId(1))).toEqual(all)
    expect(await ids("--key", fixtures.keyId(9))).toEqual([])
    expect(await ids("--error-code", "content_rejected")).toEqual([jobId(5)])

    const paged: Array<string> = []
    let next: string | null = null
    do {
      const page = await jsonOf(["job", "list", "--limit", "4", ...(next === null ? [] : ["--after", next])], env)
      expect(page.jobs.length).toBeLessThanOrEqual(4)
      paged.push(...page.jobs.map((job: { job_id: string }) => job.job_id))
      next = page.next
    } while (next !== null)
    expect(paged).toEqual(all)
  })

  it("show tells everything but the caller's data", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const shown = await jsonOf(["job", "show", jobId(4)], env)
    expect(shown).toMatchObject({
      job_id: jobId(4),
      status: "done",
      mode: "sandbox",
      data: "kept",
      warning_code: "duration_mismatch",
      created_at: time,
      finished_at: time,
      files: [{ name: "audio", bytes: expect.any(Number) }],
    })
    expect((await jsonOf(["job", "show", jobId(2)], env)).checkpoints).toEqual(["reply"])
    for (const n of [2, 4]) {
      const { exit, stdout } = await runInProcess(["job", "show", jobId(n)], env)
      expect(exit).toBe(0)
      expect(stdout).toMatch(/^job_id +job_/)
      expect(stdout + JSON.stringify(shown)).not.toMatch(/text|ré/)
    }
    for (const id of [unknownId, "nonsense"])
      expect(await refusalOf(["job", "show", id], env, 1)).toBe(`kiln: there is no job ${id}: see kiln job list\n`)
  })

  it("show --request tells the request, records the look, and obeys the setting", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const { request } = await jsonOf(["job", "show", jobId(4), "--request"], env)
    expect(request).toEqual({ input: expect.stringContaining("4") })
    const { stdout } = await runInProcess(["job", "show", jobId(4), "--request"], env)
    expect(stdout).toContain(JSON.stringify(request, null, 2))
    expect(await jsonOf(["job", "show", jobId(4)], env)).not.toHaveProperty("request")
    const { changes } = await jsonOf(["audit", "list"], env)
    const looks = changes.filter(({ action }: { action: string }) => action === "job.read-request")
    expect(looks.map(({ subject }: { subject: string }) => subject)).toEqual([jobId(4), jobId(4)])
    const hidden = { ...env, KILN_OPERATOR_REQUESTS: "off" }
    expect(await refusalOf(["job", "show", jobId(4), "--request"], hidden, 1)).toMatch(/KILN_OPERATOR_REQUESTS/)
    expect((await jsonOf(["audit", "list"], env)).changes).toHaveLength(changes.length)
  })

  it("attempts shows what failed attempts left, and show only their codes", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const failure = {
      attempt: 1,
      started_at: time,
      duration_seconds: 0.005,
      error_code: "provider_unavailable",
      worker: "host:1",
    }
    const waited = {
      first_attempt: 1,
      last_attempt: 1,
      count: 1,
      first_at: time,
      last_at: time,
      reason: "provider",
      subject: "speech",
      cause: "quota",
    }
    const { message, stack } = fixtures.record
    for (const n of [3, 5]) {
      expect(await jsonOf(["job", "attempts", jobId(n)], env)).toEqual({
        job_id: jobId(n),
        attempts: [{ ...failure, message, stack }],
        waits: n === 3 ? [waited] : [],
      })
      const shown = await jsonOf(["job", "show", jobId(n)], env)
      expect(shown.failed_attempts).toEqual([failure])
      expect(JSON.stringify(shown)).not.toContain(message)
    }
    const { stdout } = await runInProcess(["job", "attempts", jobId(5)], env)
    expect(stdout).toMatch(
      /^attempt 1 {2}\S+Z {2}0.005 s {2}provider_unavailable {2}host:1\n {2}503 from the provider\n/,
    )
    expect(stdout).toContain("\n      at call (provider.ts:1:1)\n")
    expect((await runInProcess(["job", "attempts", jobId(1)], env)).stdout).toBe(
      `no attempt of ${jobId(1)} has failed or ended to wait\n`,
    )
    expect(await refusalOf(["job", "attempts", unknownId], env, 1)).toContain("there is no job")
  })

  it("cancel ends an unfinished job, held or not, and no finished one", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    for (const n of [1, 2, 3]) {
      expect(await jsonOf(["job", "cancel", jobId(n)], env)).toEqual({
        job_id: jobId(n),
        status: "failed",
        error_code: "canceled_by_operator",
      })
      expect(await jsonOf(["job", "show", jobId(n)], env)).toMatchObject({
        status: "failed",
        error_code: "canceled_by_operator",
        held: false,
      })
    }
    expect(await refusalOf(["job", "cancel", jobId(4)], env, 1)).toContain("is finished already")
    expect(await refusalOf(["job", "cancel", unknownId], env, 1)).toContain("there is no job")
  })

  it("retry makes a new job of a failed one, once", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    await installation.use(
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* jobs.createJobs([newJob(50, { request: { input: "Again, please." } })])
        yield* jobs.cancelJobs([jobId(50)])
      }),
    )
    const { env } = installation
    const made = await jsonOf(["job", "retry", jobId(50)], env)
    expect(made).toEqual({ job_id: expect.any(String), status: "queued", retry_of: jobId(50), replayed: false })
    expect(isId("job", made.job_id) && made.job_id !== jobId(50)).toBe(true)
    expect(await jsonOf(["job", "retry", jobId(50)], env)).toEqual({ ...made, replayed: true })
    const [before, after] = [
      await jsonOf(["job", "show", jobId(50)], env),
      await jsonOf(["job", "show", made.job_id], env),
    ]
    expect([after.project_id, after.key_id, after.mode]).toEqual([before.project_id, before.key_id, before.mode])
    expect(await refusalOf(["job", "retry", jobId(4)], env, 1)).toContain("only a failed job that still has its data")
    expect(await refusalOf(["job", "retry", unknownId], env, 1)).toContain("there is no job")
  })

  it("retry changes the request of a failed job, and the audit log says so without the request", async () => {
    await using installation = await open()
    const { env } = installation
    const failed = [50, 51].map((n) => newJob(n, { kind: "speech_synthesis", request: { input: "Hullo." } }))
    await installation.use(
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* jobs.createJobs([...failed, newJob(52, { kind: "unheard_of" })])
        yield* jobs.cancelJobs([50, 51, 52].map((n) => jobId(n)))
      }),
    )
    const file = join(await mkdtemp(join(tmpdir(), "kiln-request-")), "request.json")
    await writeFile(file, JSON.stringify({ input: "Secret words." }))
    const made = await jsonOf(["job", "retry", jobId(50), "--request-file", file], env)
    await rm(dirname(file), { recursive: true })
    const shown = await jsonOf(["job", "show", made.job_id, "--request"], env)
    expect(shown.request).toEqual({ input: "Secret words." })
    const entry = (await jsonOf(["audit", "list"], env)).changes.find(
      ({ action }: { action: string }) => action === "job.retry",
    )
    expect(entry).toMatchObject({ subject: jobId(50), details: { request_changed: true, retried_as: made.job_id } })
    expect(JSON.stringify(entry)).not.toContain("Secret")
    const retried = (n: number, request: string) => ["job", "retry", jobId(n), "--request", request]
    expect(await refusalOf(retried(50, '{"input":"Others."}'), env, 1)).toContain(`was retried as ${made.job_id}`)
    expect(await refusalOf(retried(51, '{"input":""}'), env, 1)).toContain("input: ")
    expect(await refusalOf(retried(51, "{input"), env, 2)).toContain("--request must be JSON")
    expect(await refusalOf(retried(52, "{}"), env, 1)).toContain('job kind "unheard_of"')
    expect(await refusalOf(["job", "retry", "--type", "speech_synthesis", "--request", "{}"], env, 2)).toContain(
      "give its JOB_ID",
    )
  })

  it("promote and reschedule change the start of a waiting job, and promote all that flags select", async () => {
    await using installation = await open()
    const { env } = installation
    const delayed = [1, 2, 3].map((n) => newJob(n, { delayMs: 3_600_000 }))
    await installation.use(Effect.flatMap(JobStore, (store) => store.createJobs(delayed)))
    const startOf = async (n: number) =>
      Date.parse((await jsonOf(["job", "show", jobId(n)], env)).claimable_at) - Date.now()
    expect(await jsonOf(["job", "promote", jobId(1)], env)).toEqual({ job_id: jobId(1), promoted: true })
    expect(await startOf(1)).toBeLessThanOrEqual(0)
    expect(await jsonOf(["job", "promote", jobId(1)], env)).toEqual({ job_id: jobId(1), promoted: false })
    expect((await jsonOf(["job", "reschedule", jobId(2), "--in", "2d"], env)).starts_at).toEqual(time)
    expect(Math.abs((await startOf(2)) - 2 * 86_400_000)).toBeLessThan(60_000)
    await jsonOf(["job", "reschedule", jobId(2), "--at", "2026-01-01"], env)
    expect(await startOf(2)).toBeLessThanOrEqual(0)
    expect(await refusalOf(["job", "reschedule", jobId(2)], env, 2)).toMatch(/--at or --in/)
    expect(await refusalOf(["job", "reschedule", jobId(2), "--priority", "9"], env, 2)).toMatch(/--priority must be/)
    expect(await refusalOf(["job", "reschedule", unknownId, "--in", "1h"], env, 1)).toMatch(/there is no job/)
    expect(await refusalOf(["job", "promote"], env, 2)).toMatch(/flags that select jobs/)
    const all = ["job", "promote", "--type", "speech_synthesis"]
    expect(await jsonOf([...all, "--dry-run"], env)).toMatchObject({ matched: 1, job_ids: [jobId(3)] })
    expect(await jsonOf([...all, "--yes"], env)).toEqual({ matched: 1, promoted: 1, skipped: 0, complete: true })
    await jsonOf(["job", "cancel", jobId(3)], env)
    expect(await refusalOf(["job", "promote", jobId(3)], env, 1)).toMatch(/finished already/)
    const { changes } = await jsonOf(["audit", "list"], env)
    const actions = changes.map(({ action }: { readonly action: string }) => action).toReversed()
    const [promote, reschedule] = ["job.promote", "job.reschedule"]
    expect(actions).toEqual([promote, reschedule, reschedule, promote, "job.cancel"])
  })

  it("reschedule changes the priority of a waiting job, or of all that flags select", async () => {
    await using installation = await open()
    const { env } = installation
    const jobs = [1, 2, 3].map((n) => newJob(n, n === 3 ? { delayMs: 3_600_000 } : {}))
    await installation.use(Effect.flatMap(JobStore, (store) => store.createJobs(jobs)))
    const shown = (n: number) => jsonOf(["job", "show", jobId(n)], env)
    const before = await shown(3)
    const one = await jsonOf(["job", "reschedule", jobId(3), "--priority", "urgent"], env)
    expect(one).toEqual({ job_id: jobId(3), priority: "urgent" })
    expect(await shown(3)).toMatchObject({ priority: "urgent", claimable_at: before.claimable_at })
    const all = ["job", "reschedule", "--type", "speech_synthesis", "--priority=-3"]
    expect(await refusalOf(all, env, 2)).toMatch(/3 jobs would be rescheduled/)
    expect(await jsonOf([...all, "--dry-run"], env)).toMatchObject({ matched: 3 })
    expect(await jsonOf([...all, "--yes"], env)).toMatchObject({ matched: 3, rescheduled: 3, skipped: 0 })
    expect(await jsonOf([...all, "--yes"], env)).toMatchObject({ rescheduled: 0, skipped: 3 })
    expect((await shown(1)).priority).toBe(-3)
    const { changes } = await jsonOf(["audit", "list"], env)
    expect(changes.at(-1)).toMatchObject({
      action: "job.reschedule",
      subject: jobId(3),
      details: { priority: "urgent" },
    })
    expect(changes).toHaveLength(4)
  })

  it("purge-data deletes the data and files of one finished job and of no other", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const files = Effect.all([hasFile(4), hasFile(6)])
    await onFiles(installation, Effect.all([putFile(4), putFile(6)]))
    expect(await onFiles(installation, files)).toEqual([true, true])
    expect(await jsonOf(["job", "purge-data", jobId(4)], env)).toEqual({
      job_id: jobId(4),
      data: "deleted",
      data_before: "kept",
    })
    expect(await onFiles(installation, files)).toEqual([false, true])
    const data = async (n: number) => (await jsonOf(["job", "show", jobId(n)], env)).data
    expect([await data(4), await data(6), await data(8)]).toEqual(["deleted", "kept", "kept"])
    expect(await jsonOf(["job", "purge-data", jobId(4)], env)).toMatchObject({ data_before: "deleted" })
    expect(await refusalOf(["job", "purge-data", jobId(2)], env, 1)).toContain(`run kiln job cancel ${jobId(2)} first`)
    expect(await refusalOf(["job", "purge-data", unknownId], env, 1)).toContain("there is no job")
  })
})

describe("kiln job", () => {
  it.each([
    [["job", "list", "--limit", "0"], "--limit must be from 1 to 1000"],
    [["job", "list", "--limit", "many"], "--limit"],
    [["job", "list", "--after", "x"], "--after must be a cursor"],
    [["job", "list", "--from", "soon"], "--from must be a date"],
    [["job", "list", "--status", "running"], "running"],
    [["job", "show"], "JOB_ID"],
  ])("misused as %j exits with 2", async (args, message) => {
    await using installation = await sqliteInstallation()
    expect(await refusalOf(args, installation.env, 2)).toContain(message)
  })

  it("list shows a table", async () => {
    await using installation = await sqliteInstallation()
    expect((await runInProcess(["job", "list"], installation.env)).stdout).toBe("no jobs match\n")
    await installation.useLongAgo(seedEveryState)
    expect((await runInProcess(["job", "list", "--status", "failed"], installation.env)).stdout).toBe(
      [
        "JOB                             TYPE              MODE     STATUS  CODE              ATTEMPTS  CREATED               FINISHED",
        `${jobId(5)}  speech_synthesis  sandbox  failed  content_rejected  1         1970-01-01T00:00:00Z  1970-01-01T00:00:00Z`,
        "",
      ].join("\n"),
    )
    expect((await runInProcess(["job", "list", "--limit", "1"], installation.env)).stdout).toMatch(
      /\n\nThere are more: continue with --after "[^"]+"\n$/,
    )
  })
})

describe.each(installations)("kiln job signal on %s", (_name, open) => {
  it("keeps the first value of a name, records the change, and refuses what it cannot do", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    const send = (...args: ReadonlyArray<string>) => jsonOf(["job", "signal", jobId(1), ...args], env)
    const first = { job_id: jobId(1), name: "approved", is_first: true }
    expect(await send("approved", "--value", '{"by":"Ada"}')).toEqual(first)
    expect(await send("approved", "--value", '{"by":"Ada"}')).toEqual(first)
    expect(await send("approved")).toEqual({ ...first, is_first: false })
    const kept = Effect.flatMap(JobStore, (store) => store.listSignals(jobId(1)))
    expect(await installation.use(kept)).toMatchObject([{ name: "approved", value: { by: "Ada" } }])
    const entries = (await jsonOf(["audit", "list"], env)).changes as ReadonlyArray<{ readonly action: string }>
    expect(entries.filter(({ action }) => action === "job.signal")).toHaveLength(1)
    expect(JSON.stringify(entries)).not.toContain("Ada")
    expect(await refusalOf(["job", "signal", jobId(4), "approved"], env, 1)).toContain("is finished already")
    expect(await refusalOf(["job", "signal", unknownId, "approved"], env, 1)).toContain("there is no job")
  })
})
