import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openWorld, type StoreName, type World } from "./support/world.ts"

describe.each(["memory", "sqlite"] satisfies ReadonlyArray<StoreName>)("jobs in %s", (storeName) => {
  let world: World
  beforeAll(async () => {
    world = await openWorld(storeName)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  const operate = (target: string, body: object) => world.ask(world.tokens.operate, "POST", target, body)
  const view = (target: string) => world.ask(world.tokens.view, "GET", target)

  /** Jobs that wait, because their start is delayed. */
  const submitWaiting = (count: number, project: string) =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        world.engine.submit("echo", { text: `${n}` }, { project, delayMs: 3_600_000, tags: [`batch-${project}`] }),
      ),
    )

  it("are listed in pages, each once, by any filter", async () => {
    await submitWaiting(25, "pages")
    const seen: Array<string> = []
    let after: string | null = null
    do {
      const { body } = await view(
        `/jobs?project=prj_pages&limit=10${after === null ? "" : `&after=${encodeURIComponent(after)}`}`,
      )
      seen.push(...body.jobs.map(({ job_id: id }: { readonly job_id: string }) => id))
      after = body.next
    } while (after !== null)
    expect([seen.length, new Set(seen).size]).toEqual([25, 25])
    expect((await view("/jobs?tag=batch-pages&status=queued&mode=sandbox&type=echo")).body.jobs).toHaveLength(25)
    const others = ["status=done", "mode=live", "error_code=x", "to=2020-01-01"].map(
      (other) => `tag=batch-pages&${other}`,
    )
    for (const none of [...others, "tag=other"]) expect((await view(`/jobs?${none}`)).body.jobs).toEqual([])
    const [id] = seen
    expect((await view(`/jobs/${id}`)).body).toMatchObject({
      job_id: id,
      status: "queued",
      tags: ["batch-pages"],
      waiting_for: [{ reason: "start_delayed" }],
    })
  })

  it("are found by what they wait for", async () => {
    await submitWaiting(3, "why")
    await world.engine.operator.pause("echo")
    try {
      await world.engine.submit("echo", { text: "ready" }, { project: "why" })
      const found = async (filter: string) =>
        (await view(`/jobs?project=prj_why&${filter}`)).body.jobs.map((job: { readonly status: string }) => job.status)
      expect(await found("waiting_for=kind_paused")).toHaveLength(4)
      expect(await found("waiting_for=start_delayed")).toHaveLength(3)
      for (const none of ["waiting_for=line", "waiting_for=kind_paused&status=processing", "waiting_for=retry"])
        expect(await found(none)).toEqual([])
      expect((await view("/jobs?project=prj_why&waiting_for=line")).body).toMatchObject({
        next: null,
        looked_at: { jobs: 4, back_to: expect.any(String) },
      })
      expect((await view("/jobs?project=prj_why")).body.looked_at).toBeNull()
      const filter = { project: "prj_why", waiting_for: "start_delayed" }
      expect((await operate("/bulk/cancel", { filter, dry_run: true })).body).toMatchObject({ matched: 3, changed: 0 })
      expect((await operate("/bulk/retry", { filter, dry_run: true })).body).toMatchObject({ matched: 0 })
      expect((await operate("/bulk/cancel", { filter, dry_run: false })).body).toMatchObject({ matched: 3, changed: 3 })
      expect(await found("waiting_for=kind_paused")).toHaveLength(1)
      expect((await view("/jobs?waiting_for=weather")).body.error.code).toBe("invalid_request")
    } finally {
      await world.engine.operator.resume("echo")
    }
  })

  it("are found by part of an id, and by its beginning without a look at jobs of other times", async () => {
    const [job] = await submitWaiting(3, "parts")
    const id = job?.id ?? ""
    const read = async (part: string) => (await view(`/jobs?id=${encodeURIComponent(part)}`)).body
    const ids = async (part: string) =>
      (await read(part)).jobs.map(({ job_id: each }: { readonly job_id: string }) => each)
    for (const part of [id, id.slice(0, 28), id.slice(-8), id.slice(15, 28).toUpperCase(), `job_…${id.slice(-8)}`])
      expect(await ids(part), part).toContain(id)
    expect(await ids(id.slice(-8))).toHaveLength(1)
    expect(await ids(`job_0000000${id.slice(-4)}`)).toEqual([])
    expect((await read(`job_0000000${id.slice(-4)}`)).looked_at).toEqual({ jobs: 0, back_to: null })
    for (const part of ["abc", "job_", "%%%%", "job_…a"])
      expect((await read(part)).error.code, part).toBe("invalid_request")
  })

  it("are changed all at once only with a filter, after a dry run that changes nothing", async () => {
    await submitWaiting(130, "bulk")
    for (const empty of [{}, { filter: {} }, { filter: { status: "queued" } }, { job_ids: [] }])
      expect((await operate("/bulk/cancel", { ...empty, dry_run: true })).body.error.code).toBe("empty_filter")
    const filter = { project: "prj_bulk" }
    const dry = await operate("/bulk/cancel", { filter, dry_run: true })
    expect(dry.body).toMatchObject({ matched: 130, complete: true, changed: 0 })
    expect((await view("/jobs?project=prj_bulk&status=queued&limit=200")).body.jobs).toHaveLength(130)

    // Accepted after the dry run: out of its scope.
    await submitWaiting(1, "bulk")
    const within = { ...filter, to: dry.body.to }
    let [changed, after] = [0, undefined as string | undefined]
    do {
      const { body } = await operate("/bulk/cancel", {
        filter: within,
        dry_run: false,
        ...(after !== undefined && { after }),
      })
      changed += body.changed
      after = body.next ?? undefined
    } while (after !== undefined)
    expect(changed).toBe(130)
    expect((await view("/jobs?project=prj_bulk&status=queued")).body.jobs).toHaveLength(1)
  })

  it("are counted and changed once each if a list names them twice", async () => {
    const ids = (await submitWaiting(2, "twice")).map(({ id }) => id)
    const named = { job_ids: [...ids, ...ids] }
    expect((await operate("/bulk/cancel", { ...named, dry_run: true })).body).toMatchObject({ matched: 2 })
    for (const verb of ["cancel", "retry"])
      expect((await operate(`/bulk/${verb}`, { ...named, dry_run: false })).body).toMatchObject({
        matched: 2,
        changed: 2,
        skipped: 0,
        refused: [],
      })
  })

  it("are changed once each when two operators do it at the same time", async () => {
    const jobs = await submitWaiting(30, "both")
    const request = { filter: { project: "prj_both" }, dry_run: false }
    const answers = await Promise.all([operate("/bulk/cancel", request), operate("/bulk/cancel", request)])
    expect(answers.reduce((sum, { body }) => sum + body.changed, 0)).toBe(30)

    const [first] = jobs
    const retries = await Promise.all([1, 2].map(() => operate(`/jobs/${first?.id}/retry`, {})))
    expect(new Set(retries.map(({ body }) => body.job_id)).size).toBe(1)
    expect(retries.filter(({ body }) => body.replayed === true)).toHaveLength(1)
    const again = await operate(`/jobs/${first?.id}/cancel`, {})
    expect(again.body.error.code).toBe("job_finished")
  })

  it("are retried with a changed request, which the audit log mentions and does not quote", async () => {
    const [first] = await submitWaiting(1, "changed")
    await operate(`/jobs/${first?.id}/cancel`, {})
    const retry = (request: unknown) => operate(`/jobs/${first?.id}/retry`, { request })
    expect((await retry({ text: 1 })).body.error).toMatchObject({ code: "invalid_request" })
    const { body } = await retry({ text: "secret words" })
    expect(body).toEqual({ job_id: expect.any(String), replayed: false })
    expect(await world.engine.operator.getRequest(body.job_id)).toEqual({ text: "secret words" })
    expect((await retry({ text: "other words" })).body.error).toMatchObject({
      code: "job_not_retryable",
      message: expect.stringContaining(body.job_id),
    })
    // The memory store has no audit log.
    if (storeName === "memory") return
    const { changes } = (await view("/audit?limit=10")).body
    const entry = changes.find(({ subject }: { readonly subject: string }) => subject === first?.id)
    expect(entry).toMatchObject({ action: "job.retry", details: { request_changed: true, retried_as: body.job_id } })
    expect(JSON.stringify(changes)).not.toContain("words")
  })

  it("that wait for their time are promoted one by one or together, and no others", async () => {
    const [first, second] = await submitWaiting(3, "soon")
    expect((await operate(`/jobs/${first?.id}/promote`, {})).body).toEqual({ changed: true })
    await world.engine.wait(first?.id ?? "")
    expect((await operate(`/jobs/${first?.id}/promote`, {})).body.error.code).toBe("job_finished")
    const later = new Date(Date.now() + 2 * 86_400_000).toISOString()
    expect((await operate(`/jobs/${second?.id}/reschedule`, { run_at: later })).body).toEqual({ changed: true })
    expect((await view(`/jobs/${second?.id}`)).body.claimable_at.slice(0, 10)).toBe(later.slice(0, 10))
    for (const run_at of ["soon", "2999-01-01T00:00:00Z"])
      expect((await operate(`/jobs/${second?.id}/reschedule`, { run_at })).body.error.code).toBe("invalid_request")
    expect((await operate(`/jobs/${second?.id}/reschedule`, { priority: 4 })).body).toEqual({ changed: true })
    expect((await operate(`/jobs/${second?.id}/reschedule`, { priority: 4 })).body).toEqual({ changed: false })
    expect((await view(`/jobs/${second?.id}`)).body).toMatchObject({ priority: 4, claimable_at: expect.anything() })
    for (const body of [{}, { priority: "soon" }, { priority: 6 }])
      expect((await operate(`/jobs/${second?.id}/reschedule`, body)).body.error.code).toBe("invalid_request")
    const filter = { project: "prj_soon" }
    expect((await operate("/bulk/promote", { filter, dry_run: true })).body).toMatchObject({ matched: 2, changed: 0 })
    expect((await operate("/bulk/promote", { filter, dry_run: false })).body).toMatchObject({ matched: 2, changed: 2 })
    // The memory store has no audit log.
    if (storeName === "memory") return
    const { body } = await view("/audit")
    const actions = body.changes.map(({ action }: { readonly action: string }) => action)
    const [promote, reschedule] = ["job.promote", "job.reschedule"]
    expect(actions.slice(0, 5)).toEqual([promote, promote, reschedule, reschedule, promote])
  })

  it("that failed are grouped, and retried together", async () => {
    const failed = await Promise.all(
      [1, 2, 3].map((n) => world.engine.submitAndWait("echo", { text: `fail ${n}` }, { project: "fails" })),
    )
    const { body } = await view("/failures?span=1h")
    expect(body.groups).toContainEqual(
      expect.objectContaining({ type: "echo", error_code: "content_rejected", count: 3, message: null }),
    )
    const filter = { project: "prj_fails", error_code: "content_rejected" }
    expect((await operate("/bulk/retry", { filter, dry_run: true })).body.matched).toBe(3)
    expect((await operate("/bulk/retry", { filter, dry_run: false })).body).toMatchObject({
      changed: 3,
      skipped: 0,
      refused: [],
    })
    const one = await view(`/jobs/${failed[0]?.id}`)
    expect(one.body).toMatchObject({
      status: "failed",
      error_code: "content_rejected",
      failed_attempts: [{ attempt: 1, error_code: "content_rejected" }],
    })
    expect(one.text).not.toContain("cannot say")
  })

  it("are summed up by the overview as the store counts them", async () => {
    const { body } = await view("/overview")
    const queue = (await world.engine.operator.measureQueue()).find(({ kind }) => kind === "echo")
    expect(body.queues).toContainEqual(
      expect.objectContaining({ type: "echo", delayed: queue?.delayed, ready: queue?.ready }),
    )
    expect(body.recent.failures).toContainEqual({
      type: "echo",
      error_code: "content_rejected",
      count: expect.any(Number),
    })
    expect(body.workers).toMatchObject([
      {
        slots: 4,
        types: ["echo"],
        version: null,
        draining: false,
        free: { live: expect.any(Number), sandbox: expect.any(Number) },
        loop_lag_ms: null,
      },
    ])
  })
})
