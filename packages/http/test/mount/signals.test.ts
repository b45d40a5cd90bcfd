import { createClient } from "@kiln/client"
import { jobRoute, nodeHandler } from "@kiln/http/mount"
import { describe, expect, it } from "vitest"
import { Client } from "./support/Client.ts"
import { approval, openEngine, summary } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

const routes = [jobRoute(approval, { path: "/v1/approvals" }), jobRoute(summary, { path: "/v1/summaries" })] as const
const scopes = ["approval.create", "text_summary.create"]

const open = async () => {
  const mounted = await openEngine()
  const server = await listen(await nodeHandler(mounted.engine, { publicUrl, routes }))
  return {
    server,
    key: () => mounted.createKey({ scopes }),
    engine: mounted.engine,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]()
      await mounted[Symbol.asyncDispose]()
    },
  }
}

describe("a signal over HTTP", () => {
  it("reaches the job of its key, and repeating the request returns the same response", async () => {
    await using service = await open()
    const client = new Client(service.server.port, await service.key())
    const { body: job } = await client.ask("POST", "/v1/approvals", { title: "x" }, { "idempotency-key": "k" })
    const path = `/v1/approvals/${job.id}/signals/approved`
    const stranger = new Client(service.server.port, await service.key())
    expect((await stranger.ask("POST", path, { value: 1 })).body.error.code).toBe("job_not_found")
    const wrong = async (body: object, to = path) => (await client.ask("POST", to, body)).body.error
    expect(await wrong({})).toMatchObject({ code: "invalid_request", param: "value" })
    expect(await wrong({ value: 1, vale: 2 })).toMatchObject({ code: "invalid_request", param: "vale" })
    const long = path.replace("approved", "x".repeat(65))
    expect(await wrong({ value: 1 }, long)).toMatchObject({ code: "invalid_request", param: "name" })
    expect(await wrong({ value: 1 }, `/v1/summaries/${job.id}/signals/a`)).toMatchObject({ code: "job_not_found" })
    expect(await wrong({ value: 1 }, `/v1/jobs/${job.id}/signals/a`)).toMatchObject({ code: "not_found" })
    const sent = await client.ask("POST", path, { value: { by: "Ada" } })
    expect([sent.status, sent.body]).toEqual([200, { id: job.id, name: "approved", is_first: true }])
    expect((await client.ask("POST", path, { value: { by: "Ada" } })).body).toEqual(sent.body)
    expect((await client.ask("POST", path, { value: { by: "Eve" } })).body).toEqual({ ...sent.body, is_first: false })
    expect(await service.engine.wait(job.id)).toMatchObject({ status: "done", output: { approvedBy: "Ada" } })
    expect((await client.ask("POST", path, { value: { by: "Ada" } })).body).toEqual(sent.body)
    expect(await wrong({ value: 1 }, path.replace("approved", "other"))).toMatchObject({ code: "job_finished" })
  })

  it("is a method of the client, also with a name that is escaped in the path", async () => {
    await using service = await open()
    const baseUrl = `http://127.0.0.1:${service.server.port}${new URL(publicUrl).pathname}`
    const client = createClient({ apiKey: await service.key(), baseUrl, routes })
    const job = await client.approval.create({ title: "x" })
    expect(await client.jobs.signal(job, "chapter 1/2: ok?", [1])).toMatchObject({
      name: "chapter 1/2: ok?",
      is_first: true,
    })
    await client.jobs.signal(job, "approved", { by: "Ada" })
    expect(await client.jobs.wait(job)).toMatchObject({ status: "done", output: { approved_by: "Ada" } })
  })
})
