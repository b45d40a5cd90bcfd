import { Effect, ManagedRuntime } from "effect"
import { startCluster, freshDatabase } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/testing/conformance"
const { newJob, noLimits, completionOf } = fixtures
const old = await import("/tmp/oldkiln/packages/adapter-postgres/src/index.ts")
const oldPorts = await import("/tmp/oldkiln/packages/core/src/ports/index.ts")
const now = await import("/work/main/packages/adapter-postgres/src/index.ts")
const nowPorts = await import("@kiln/core/ports")
await using cluster = await startCluster()
const open = async (mod, ports, options) => {
  const db = await freshDatabase({ server: cluster.url })
  const rt = ManagedRuntime.make(mod.PostgresStores.layer({ url: db.url, poolSize: 6, notifications: false, ...options }))
  const run = (f) => rt.runPromise(Effect.flatMap(ports.JobStore, f))
  await run(() => Effect.void)
  let n = 0
  const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }]
  return {
    db, rt, run,
    create: async (count) => {
      const t = performance.now()
      for (let i = 0; i < count; i += 50) { const first = n; n += 50; await run((s) => s.createJobs(Array.from({ length: 50 }, (_, k) => newJob(first + k, { projectId: fixtures.projectId((first + k) % 5) })))) }
      return performance.now() - t
    },
    drain: async (count) => {
      const t = performance.now(); let done = 0; const claims = []
      await Promise.all(Array.from({ length: 4 }, async () => {
        while (done < count) {
          const c = performance.now()
          const r = await run((s) => s.claimJobs({ runnable, limits: noLimits, limit: 10, leaseDurationMs: 60000, maxLostWorkers: 3 }))
          claims.push(performance.now() - c)
          if (r.claims.length) { done += r.claims.length; await run((s) => s.completeJobs(r.claims.map((x) => completionOf(x)))) }
        }
      }))
      claims.sort((a, b) => a - b)
      return { ms: performance.now() - t, claim: claims[claims.length >> 1] }
    },
  }
}
const subjects = { old: await open(old, oldPorts, {}), new: await open(now, nowPorts, {}), newSend: await open(now, nowPorts, { notifications: "send" }) }
const res = Object.fromEntries(Object.keys(subjects).map((k) => [k, { create: [], drain: [], claim: [] }]))
const N = 1500
for (let round = 0; round < Number(process.argv[2] ?? 7); round++) {
  for (const [k, s] of Object.entries(subjects).sort(() => Math.random() - 0.5)) {
    res[k].create.push(await s.create(N)); const d = await s.drain(N); res[k].drain.push(d.ms); res[k].claim.push(d.claim)
  }
}
const med = (v) => v.slice(1).sort((a, b) => a - b)[(v.length - 1) >> 1]
const min = (v) => Math.min(...v.slice(1))
for (const [k, r] of Object.entries(res)) console.log(k, "create/s", (N / med(r.create) * 1000) | 0, "best", (N / min(r.create) * 1000) | 0, "drain/s", (N / med(r.drain) * 1000) | 0, "best", (N / min(r.drain) * 1000) | 0, "claim ms", med(r.claim).toFixed(2), min(r.claim).toFixed(2))
// the version before, beside the new one, on the new schema
const mixed = ManagedRuntime.make(old.PostgresStores.layer({ url: subjects.new.db.url, poolSize: 3, notifications: false }))
const o = (f) => mixed.runPromise(Effect.flatMap(oldPorts.JobStore, f))
const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }]
await o((s) => s.createJobs(Array.from({ length: 20 }, (_, k) => newJob(900000 + k))))
await subjects.new.run((s) => s.createJobs([newJob(910000, { priority: "urgent", kept: { a: 1 } }), newJob(910001, { delayMs: 60000 })]))
const c1 = await o((s) => s.claimJobs({ runnable, limits: noLimits, limit: 5, leaseDurationMs: 60000, maxLostWorkers: 3 }))
const c2 = await subjects.new.run((s) => s.claimJobs({ runnable, limits: noLimits, limit: 30, leaseDurationMs: 60000, maxLostWorkers: 3 }))
console.log("old claimed", c1.claims.length, "new claimed", c2.claims.length, "new first", c2.claims[0]?.job.priority)
console.log(new Set(await o((s) => s.completeJobs([...c1.claims, ...c2.claims].map((x) => completionOf(x))))), "next", (await o((s) => s.claimJobs({ runnable, limits: noLimits, limit: 30, leaseDurationMs: 60000, maxLostWorkers: 3 }))).nextInMs)
await mixed.dispose(); for (const s of Object.values(subjects)) { await s.rt.dispose(); await s.db.dispose() }
