import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/testing/conformance"
import { SqliteStores as Old } from "./src/index.ts"
import { SqliteStores as New } from "../src/index.ts"

const jobsN = Number(process.argv[2] ?? 6000)
const limit = Number(process.argv[3] ?? 16)
const mix = process.argv[4] === "mix"
const ranks = ["urgent", "high", "normal", "low"] as const
const run = (stores: any) => Effect.gen(function* () {
  const store = yield* JobStore
  const t0 = performance.now()
  for (let n = 1; n <= jobsN; n += 20)
    yield* store.createJobs(Array.from({ length: 20 }, (_, k) => fixtures.newJob(n + k, mix ? { priority: ranks[(n + k) % 4]! } : {})))
  const t1 = performance.now()
  let done = 0, claimMs = 0
  while (true) {
    const c0 = performance.now()
    const { claims } = yield* store.claimJobs({ runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }], limits: fixtures.noLimits, limit, leaseDurationMs: 60000, maxLostWorkers: 3 })
    claimMs += performance.now() - c0
    if (claims.length === 0) break
    yield* store.completeJobs(claims.map((c) => fixtures.completionOf(c)))
    done += claims.length
  }
  const t2 = performance.now()
  return { create: t1 - t0, drain: t2 - t1, claim: claimMs, done }
}).pipe(Effect.provide(stores)) as Effect.Effect<any>
const totals: Record<string, Array<any>> = { old: [], new: [] }
for (let i = 0; i < 11; i++)
  for (const [name, S] of (i % 2 ? [["new", New], ["old", Old]] : [["old", Old], ["new", New]]) as any) {
    const dir = mkdtempSync(join(tmpdir(), "sqb-"))
    totals[name]!.push(await Effect.runPromise(run(S.layer({ path: join(dir, "k.sqlite") }))))
    rmSync(dir, { recursive: true })
  }
const med = (xs: number[]) => xs.sort((a, b) => a - b)[Math.floor(xs.length / 2)]!
for (const k of ["create", "drain", "claim"]) {
  const o = med(totals.old!.slice(1).map((r) => r[k])), n = med(totals.new!.slice(1).map((r) => r[k]))
  console.log(k, "us/job old", (o / jobsN * 1000).toFixed(1), "new", (n / jobsN * 1000).toFixed(1), "ratio", (n / o).toFixed(3))
}
