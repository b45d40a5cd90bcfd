import { jobRoute, nodeHandler } from "@kiln/http/mount"
import { describe, expect, it } from "vitest"
import { Client } from "./support/Client.ts"
import { openEngine, summary } from "./support/MountedEngine.ts"
import { listen, publicUrl } from "./support/servers.ts"

describe("a poll of a failed job", () => {
  it("names its newest retry in a Link header, to its owner only, and its body stays the same", async () => {
    await using mounted = await openEngine()
    const { engine } = mounted
    const routes = [jobRoute(summary, { path: "/v1/summaries" })]
    await using server = await listen(await nodeHandler(engine, { publicUrl, routes }))
    const client = new Client(server.port, await mounted.createKey({ scopes: ["text_summary.create"] }))
    const other = new Client(server.port, await mounted.createKey({ scopes: ["text_summary.create"] }))
    await engine.operator.pause("text_summary")
    const request = { long_text: "one two three", max_words: 2 }
    const { id } = (await client.ask("POST", "/v1/summaries", request)).body
    const poll = (asking: Client, jobId: string) => asking.ask("GET", `/v1/summaries/${jobId}`)
    expect((await poll(client, id)).headers.get("link")).toBeNull()
    await engine.operator.cancel(id)
    const failed = await poll(client, id)
    expect([failed.body.status, failed.headers.get("link")]).toEqual(["failed", null])
    expect(await engine.get(id)).not.toHaveProperty("retriedAs")

    const retry = await engine.operator.retry(id)
    const link = (jobId: string) => `<${publicUrl}/v1/summaries/${jobId}>; rel="latest-version"`
    const retried = await poll(client, id)
    expect([retried.body, retried.headers.get("link")]).toEqual([failed.body, link(retry.id)])
    expect(await engine.get(id)).toMatchObject({ status: "failed", retriedAs: retry.id })
    const foreign = await poll(other, id)
    expect([foreign.status, foreign.headers.get("link")]).toEqual([404, null])

    // A retry that failed and was retried too is not the newest.
    await engine.operator.cancel(retry.id)
    const second = await engine.operator.retry(retry.id)
    expect((await poll(client, id)).headers.get("link")).toBe(link(second.id))
    expect((await poll(client, retry.id)).headers.get("link")).toBe(link(second.id))
    await engine.operator.resume("text_summary")
    expect(await engine.wait(second)).toMatchObject({ status: "done" })
    expect((await poll(client, second.id)).headers.get("link")).toBeNull()
    expect((await poll(client, id)).headers.get("link")).toBe(link(second.id))
  })
})
