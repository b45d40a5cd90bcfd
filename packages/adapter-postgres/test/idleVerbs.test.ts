import { Effect, ManagedRuntime } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { JobStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { PostgresStores } from "../src/index.ts"

const open = async () => {
  const database = await freshDatabase()
  const proxy = await tcpProxy(database.url)
  const runtime = ManagedRuntime.make(PostgresStores.layer({ url: proxy.url, notifications: false }))
  return { database, proxy, runtime }
}
let opened: Awaited<ReturnType<typeof open>>
beforeAll(async () => {
  opened = await open()
  await opened.runtime.context()
})
afterAll(async () => {
  await opened.runtime.dispose()
  await opened.proxy.close()
  await opened.database.dispose()
})

const day = 86_400_000
const runnable = ["transcription", "speech_synthesis", "voice_turn", "image_generation"].flatMap((kind) =>
  (["sandbox", "live"] as const).map((mode) => ({ kind, kindVersion: 1, mode })),
)
const claim = { runnable, limits: fixtures.noLimits, limit: 8, leaseDurationMs: 30_000, maxLostWorkers: 3 }

/** Everything that an idle process asks again and again. */
const idle: Record<string, Effect.Effect<unknown, unknown, JobStore | UploadStore | Switchboard>> = {
  claimJobs: Effect.flatMap(JobStore, (store) => store.claimJobs(claim)),
  expireJobs: Effect.flatMap(JobStore, (store) => store.expireJobs(100)),
  expireData: Effect.flatMap(JobStore, (store) => store.expireData(day, 100)),
  deleteJobs: Effect.flatMap(JobStore, (store) => store.deleteJobs(day, 100)),
  nextPurges: Effect.flatMap(JobStore, (store) => store.nextPurges(100)),
  publishRetention: Effect.flatMap(JobStore, (store) =>
    store.publishRetention({
      publisher: "process",
      program: "kinds",
      rules: [{ kind: "transcription", dataMs: day, jobsMs: null }],
      ttlMs: 900_000,
      graceMs: 7 * day,
    }),
  ),
  readRetention: Effect.flatMap(JobStore, (store) => store.readRetention),
  expireUploads: Effect.flatMap(UploadStore, (store) => store.expireUploads(100)),
  deleteUploads: Effect.flatMap(UploadStore, (store) => store.deleteUploads(day, 100)),
  readBoard: Effect.flatMap(Switchboard, (board) => board.readBoard),
  publishWorker: Effect.flatMap(Switchboard, (board) =>
    board.publishWorker({
      workerId: "worker",
      liveKinds: ["transcription"],
      providers: fixtures.standings,
      ttlMs: 45_000,
    }),
  ),
}

// How often they are asked is the worker's matter: at most one in five seconds, all together.
describe("with nothing to do, a verb is one statement:", () => {
  for (const [name, verb] of Object.entries(idle))
    it(name, async () => {
      const { proxy, runtime } = opened
      await runtime.runPromise(verb)
      proxy.resetCounts()
      await runtime.runPromise(verb)
      // Ahead of it, a connection may renew its plans, without waiting for the answer.
      const sent = [...proxy.statements()].filter(([text]) => text !== "DISCARD PLANS")
      expect(
        sent.map(([, count]) => count),
        sent.join("\n"),
      ).toEqual([1])
    })
})
