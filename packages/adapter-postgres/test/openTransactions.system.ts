import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { CallerTransactions, JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { PostgresStores } from "../src/index.ts"
import { begun, emptyDatabase, runSql } from "./support/databases.ts"

const { newJob, noLimits, projectId } = fixtures
const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }]
const request = { runnable, limits: noLimits, limit: 10, leaseDurationMs: 60_000, maxLostWorkers: 3 }

/** How often a worker claims within a time that does as it is told: it comes again after `nextInMs`. */
const claimsWithin = Effect.fnUntraced(function* (ms: number) {
  const { claimJobs } = yield* JobStore
  const endsAt = performance.now() + ms
  let claims = 0
  while (performance.now() < endsAt) {
    const { nextInMs } = yield* claimJobs(request)
    claims += 1
    yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, Math.min(nextInMs ?? ms, 2_000))))
  }
  return claims
})

it.live("while a caller's transaction stays open, a worker searches its lane about once a second", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* Effect.gen(function* () {
      const { createJobs } = yield* CallerTransactions
      const client = yield* begun(url)
      yield* createJobs(client, [newJob(1)])
      // The first look finds it empty; a lane is set aside a second later, and that it cannot be is found out then.
      expect(yield* claimsWithin(5_000)).toBeLessThan(9)
      yield* Effect.promise(() => client.query("COMMIT"))
      const { claimJobs } = yield* JobStore
      expect((yield* claimJobs(request)).claims).toHaveLength(1)
    }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3 })))
  }),
)

it.live("a job behind the lanes of many open transactions is found", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* Effect.gen(function* () {
      const { createJobs } = yield* CallerTransactions
      const { claimJobs, createJobs: create } = yield* JobStore
      const client = yield* begun(url)
      const many = Array.from({ length: 80 }, (_, n) => newJob(n + 1, { projectId: projectId(n + 1) }))
      yield* createJobs(client, many)
      yield* create([newJob(500, { projectId: projectId(500) })])
      const { claims, nextInMs } = yield* claimJobs(request)
      expect(claims.map(({ job }) => job.projectId)).toEqual([projectId(500)])
      expect(nextInMs).toBeGreaterThan(0)
    }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))
  }),
)

it.live("a process killed with an open transaction leaves no job and no lock", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* Effect.gen(function* () {
      const { claimJobs, findByIdempotencyKey } = yield* JobStore
      const script = fileURLToPath(new URL("support/createAndHang.ts", import.meta.url))
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, ["--conditions=@kiln/source", script, url], { stdio: ["ignore", "pipe", "inherit"] }),
        ),
        (process) => Effect.sync(() => process.kill("SIGKILL")),
      )
      const [said] = yield* Effect.promise(() => once(child.stdout, "data"))
      expect(String(said)).toBe("Created\n")
      child.kill("SIGKILL")
      yield* Effect.promise(() => once(child, "exit"))
      // The server learns of it by the end of the connection.
      const left = `SELECT FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE relnamespace = 'kiln'::regnamespace AND pid <> pg_backend_pid()`
      yield* Effect.repeat(runSql(url, left), { until: (rows) => rows.length === 0 })
      expect(yield* findByIdempotencyKey(newJob(1).keyId, newJob(1).idempotencyKey)).toBe(undefined)
      expect(yield* claimJobs(request)).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
    }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false, noteLanesEveryMs: 0 })))
  }),
)
