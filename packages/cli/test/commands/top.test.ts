import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "vitest"
import { frame } from "../../src/top/frame.ts"
import { seedEveryState } from "../support/copiedRecords.ts"
import { sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

describe("kiln top", () => {
  it("prints the same overview from the database and from a service, whole or cut to a terminal's width", async () => {
    await using installation = await sqliteInstallation()
    await installation.use(seedEveryState)
    const fromStore = await jsonOf(["top"], installation.env)
    expect(fromStore.queues.length).toBeGreaterThan(0)
    expect(fromStore.history).toMatchObject({ step_seconds: 60 })

    const { exit, stderr, stdout } = await runInProcess(["top", "--once"], installation.env)
    expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
    expect(stdout).not.toContain("\u001b")
    const queue = fromStore.queues[0]
    expect(stdout).toMatch(new RegExp(`^${queue.type} +${queue.mode} +${queue.ready} `, "m"))
    const [failure] = fromStore.recent.failures
    expect(stdout).toContain(`  ${failure.count} ${failure.type} ${failure.error_code}\n`)

    const { history, ...overview } = fromStore
    for (const line of frame({ history, overview }, 40)) expect([...line].length).toBeLessThanOrEqual(40)
    expect(stdout).toMatch(/DONE\/H +FAILED\/H/)

    // Only the newest jobs are read, which is not an hour of a busy installation.
    const busy = { ...overview, recent: { ...overview.recent, jobs: 2_000, complete: false } }
    const text = frame({ history, overview: busy }, Infinity).join("\n")
    expect(text).toContain(`only the last 2000 finished jobs are counted, since ${busy.recent.since}\n`)
    expect(text).not.toMatch(/\/H\b|1 H/)

    const worker = { worker_id: "req_0", name: "web-1:42", slots: 4, live_types: [], types: ["speech_synthesis"] }
    const served = { ...overview, workers: [worker, { ...worker, name: null }] }
    expect(frame({ history, overview: served }, Infinity).slice(-2)).toEqual([
      "  web-1:42 4 slots speech_synthesis",
      "  req_0 4 slots speech_synthesis",
    ])

    const at = Date.parse(overview.at) / 1_000
    const recorded = (age: number) => {
      const point = { at: at - age, ready: 0, running: 0, waiting: 0, oldest_ready_seconds: 0, done: 7, failed: 0 }
      return frame({ history: { ...history, points: [point] }, overview }, Infinity)[1]
    }
    expect(recorded(60)).toMatch(/^done 7\/min .* failed 0\/min/)
    expect(recorded(600)).toMatch(/^done -\/min .* failed -\/min/)

    const asked: Array<string | undefined> = []
    const server = createServer((request, response) => {
      asked.push(request.headers.authorization)
      if (request.headers.authorization !== "Bearer kiln_ops_x") return void response.writeHead(401).end("{}")
      response.end(JSON.stringify(request.url === "/admin/v1/overview" ? overview : history))
    }).listen(0, "127.0.0.1")
    await once(server, "listening")
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    expect(await jsonOf(["top", "--url", url, "--token", "kiln_ops_x"], {})).toEqual(fromStore)
    expect(await jsonOf(["top", "--url", url], { KILN_MANAGEMENT_TOKEN: "kiln_ops_x" })).toEqual(fromStore)
    expect(await refusalOf(["top", "--url", url], {}, 1)).toContain("answers 401: pass --token")
    server.close()
    server.closeAllConnections()
    expect(await refusalOf(["top", "--url", url], {}, 1)).toContain("does not respond")
  })
})
