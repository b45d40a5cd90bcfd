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

const subjects = { old: await open(old, oldPorts, {}), new: await open(now, nowPorts, {}) }
const t = { old: { claim: [], complete: [], create: [] }, new: { claim: [], complete: [], create: [] } }
const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }]
for (const s of Object.values(subjects)) await s.create(4000)
for (let i = 0; i < 350; i++) for (const [k, s] of Object.entries(subjects)) {
  let a = performance.now()
  const r = await s.run((x) => x.claimJobs({ runnable, limits: noLimits, limit: 10, leaseDurationMs: 60000, maxLostWorkers: 3 }))
  t[k].claim.push(performance.now() - a); a = performance.now()
  await s.run((x) => x.completeJobs(r.claims.map((c) => completionOf(c))))
  t[k].complete.push(performance.now() - a)
  t[k].create.push(await s.create(50) / 5)
  if (i % 4) await s.run((x) => x.claimJobs({ runnable, limits: noLimits, limit: 40, leaseDurationMs: 60000, maxLostWorkers: 3 })).then((r) => s.run((x) => x.completeJobs(r.claims.map((c) => completionOf(c)))))
}
for (const v of ["claim", "complete", "create"]) { const q = (k, p) => t[k][v].slice(30).sort((a, b) => a - b)[Math.floor((t[k][v].length - 30) * p)]; console.log(v, "p20", q("old", .2).toFixed(2), q("new", .2).toFixed(2), (q("new", .2) / q("old", .2)).toFixed(2), "p50", q("old", .5).toFixed(2), q("new", .5).toFixed(2), (q("new", .5) / q("old", .5)).toFixed(2)) }
for (const s of Object.values(subjects)) { await s.rt.dispose(); await s.db.dispose() }
