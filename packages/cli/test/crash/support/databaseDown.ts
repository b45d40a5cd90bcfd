import { expect } from "vitest"
import { startCluster } from "@kiln/postgres-lab"
import { until } from "@kiln/service-lab"
import { audit } from "./audit.ts"
import { Lab, type Server } from "./Lab.ts"
import { postgresStore } from "./LabStore.ts"
import { sum } from "./stormChecks.ts"

export interface Downtime {
  /** How long the server is gone, milliseconds: longer than a lease. */
  readonly downMs: number
  readonly jobs: number
}

/** Sends requests until told to stop, and counts the outcomes: only a response, a rejection or an unavailable service may occur. */
const load = async (server: Server, isOver: () => boolean) => {
  const accepted: Array<string> = []
  let refused = 0
  while (!isOver()) {
    const response = await server.client.post("/v1/audio/speech", { input: "brief wait:50" })
    const body = (await response.json()) as { readonly id?: string; readonly error?: { readonly code: string } }
    if (response.status === 202) accepted.push(body.id ?? "")
    else {
      expect([response.status, body.error?.code]).toEqual([503, "service_unavailable"])
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0)
      refused += 1
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return { accepted, refused }
}

/**
 * Two processes under load, and a Postgres that goes and comes back: asserts that none of them exits, that they say so and
 * refuse politely meanwhile, and that every job that was accepted ends once, with its attempts counted as they were.
 */
export const databaseDown = async ({ downMs, jobs }: Downtime) => {
  await using cluster = await startCluster()
  await using lab = await Lab.open(postgresStore(cluster.url))
  const servers = await Promise.all([lab.start(), lab.start()])
  // Claimed when the server goes down, and still running when it is back: their leases end in between.
  const held = await Promise.all(servers.map(({ client }) => client.speak("hold@1")))
  await Promise.all(held.map((id) => lab.attemptBegun(id, 1)))
  let over = false
  const loads = servers.map((server) => load(server, () => over))
  await until(async () => ((await lab.store.rows()).jobs.length >= jobs ? true : undefined))

  await cluster.stop("immediate")
  const downSince = performance.now()
  await until(async () => {
    const answers = await Promise.all(servers.map(({ client }) => client.readiness()))
    return answers.every((status) => status === 503) ? true : undefined
  })
  const refusal = await servers[0].client.get(`/v1/jobs/${held[0]}`)
  expect(refusal.status).toBe(503)
  expect(await refusal.json()).toMatchObject({ error: { code: "service_unavailable" } })
  expect(Number(refusal.headers.get("retry-after"))).toBeGreaterThan(0)
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, downSince + downMs - performance.now())))
  await cluster.start()
  const backAt = Date.now()

  const probes = await until(async () => {
    const responses = await Promise.all(
      servers.map(({ client }) => client.post("/v1/audio/speech", { input: "brief" })),
    )
    const bodies = await Promise.all(responses.map(async (one) => (await one.json()) as { readonly id?: string }))
    return responses.every(({ status }) => status === 202) ? bodies.map(({ id = "" }) => id) : undefined
  })
  await Promise.all(probes.map((id) => lab.attemptBegun(id, 1)))
  await Promise.all(held.map((id) => lab.attemptBegun(id, 2)))
  const begun = [...probes.map((id) => lab.begun(id)[0]), ...held.map((id) => lab.begun(id)[1])]
  const recoveredMs = Math.max(...begun.map((call) => (call?.at ?? Number.POSITIVE_INFINITY) - backAt))
  await until(async () => {
    const answers = await Promise.all(servers.map(({ client }) => client.readiness()))
    return answers.every((status) => status === 200) ? true : undefined
  })
  over = true
  const answered = await Promise.all(loads)
  const accepted = [...held, ...probes, ...answered.flatMap((one) => one.accepted)]
  const rows = await until(async () => {
    const found = (await lab.store.rows()).jobs
    return found.every(({ status }) => status === "done") ? found : undefined
  }, 60_000)

  expect(servers.map(({ listening, pid }) => [listening.url, process.kill(pid, 0)])).toEqual(
    servers.map(({ listening }) => [listening.url, true]),
  )
  // A job may have been accepted although its response was an error.
  const stored = new Set<string>(rows.map(({ id }) => id))
  expect(accepted.filter((id) => !stored.has(id))).toEqual([])
  for (const row of rows) {
    expect(row.failures).toBe(0)
    // A job that was released late was not lost.
    expect(row.lostWorkers).toBeLessThan(row.attempts)
    const attempts = lab.begun(row.id).map(({ attempt }) => attempt)
    expect(new Set(attempts).size).toBe(attempts.length)
    expect(Math.max(...attempts)).toBeLessThanOrEqual(row.attempts)
  }
  const { chargedJobs, damaged } = await audit(lab)
  expect(chargedJobs.toSorted()).toEqual(rows.map(({ id }) => id).toSorted())
  expect(damaged).toEqual([])
  return {
    jobs: rows.length,
    refused: sum(answered.map((one) => one.refused)),
    lostWorkers: sum(rows.map((row) => row.lostWorkers)),
    recoveredMs,
  }
}
