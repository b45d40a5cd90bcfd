import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openWorld, type World } from "./support/world.ts"

let world: World
beforeAll(async () => {
  world = await openWorld("sqlite")
  await world.engine.submit("echo", { text: "a" }, { project: "acme", delayMs: 3_600_000 })
})
afterAll(() => world[Symbol.asyncDispose]())

const operate = (target: string, body: object = {}) => world.ask(world.tokens.operate, "POST", target, body)
const view = (target: string) => world.ask(world.tokens.view, "GET", target)

describe("the installation", () => {
  it("pauses and resumes a type", async () => {
    expect((await operate("/types/echo/pause")).body).toEqual({ changed: true })
    expect((await world.engine.operator.board()).pausedKinds).toEqual(["echo"])
    await operate("/types/echo/resume")
    expect((await world.engine.operator.board()).pausedKinds).toEqual([])
  })

  it("pauses, resumes, runs and removes a schedule", async () => {
    await world.engine.schedules.set("nightly", { kind: "echo", cron: "0 3 * * *", request: { text: "x" } })
    await operate("/schedules/nightly/pause")
    expect((await world.engine.schedules.list()).map(({ paused }) => paused)).toEqual([true])
    expect((await view("/schedules")).body).toMatchObject([{ name: "nightly", paused: true, timing: "0 3 * * * UTC" }])
    await operate("/schedules/nightly/resume")
    expect((await world.engine.schedules.list()).map(({ paused }) => paused)).toEqual([false])
    const { body: first } = await operate("/schedules/nightly/run")
    expect((await operate("/schedules/nightly/run")).body.job_id).toBe(first.job_id)
    const { body: audit } = await view("/audit")
    const runs = audit.changes.filter(({ action }: { action: string }) => action === "schedule.run")
    expect(runs).toMatchObject([{ subject: "nightly", details: { job_id: first.job_id } }])
    await operate("/schedules/nightly/remove")
    expect((await view("/schedules")).body).toEqual([])
  })

  it("records a retry with its job, also while a worker is idle", async () => {
    const failed = await world.engine.submitAndWait("echo", { text: "fail this" })
    const { body: retried } = await operate(`/jobs/${failed.id}/retry`)
    const { body: audit } = await view("/audit")
    const retries = audit.changes.filter(({ action }: { action: string }) => action === "job.retry")
    expect(retries).toMatchObject([{ subject: failed.id, details: { retried_as: retried.job_id } }])
  })

  it("writes a minute of history, and shows the last hour and day", async () => {
    // The first minute is recorded when the dashboard starts.
    await expect
      .poll(async () => (await world.store.minutes()).length, { timeout: 60_000, interval: 100 })
      .toBeGreaterThanOrEqual(1)
    const { body } = await view("/history?span=1h")
    expect(body.step_seconds).toBe(60)
    expect(body.points).toHaveLength((await world.store.minutes()).length)
    expect(body.points[0]).toMatchObject({ ready: 0, running: 0, done: 0, failed: 0 })
    expect((await view("/history?span=24h")).body).toMatchObject({ step_seconds: 600 })
  })

  it("sends the overview as events, from one look for all viewers, until the engine stops", async () => {
    const open = async () => {
      const response = await world.fetch(
        new Request("http://ops.example/admin/v1/overview/stream", {
          headers: { authorization: `Bearer ${world.tokens.view}` },
        }),
      )
      expect(response.headers.get("content-type")).toContain("text/event-stream")
      return response.body?.pipeThrough(new TextDecoderStream()).getReader()
    }
    const readers = [await open(), await open()]
    for (const reader of readers) expect((await reader?.read())?.value).toMatch(/^event: overview\ndata: \{.*\}\n\n$/)
    await readers[0]?.cancel()
    await world.engine.stop()
    let last = await readers[1]?.read()
    while (last?.done === false) last = await readers[1]?.read()
    expect(last?.done).toBe(true)
  })
})
