import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, type LogEntry } from "@kiln/core"
import type { JsonObject } from "@kiln/core/domain"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

/** Attempts that block the event loop past their lease. In real time, because a blocked process also blocks its timers. */

const leaseDurationMs = 1_000
const patience = { timeout: 60_000 }

const block = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const request = z.object({ ms: z.number() })
type Run = Parameters<typeof jobKind<"work", typeof request, JsonObject>>[0]["run"]

const openKind = async (run: Run) => {
  const log: Array<LogEntry> = []
  const directory = await mkdtemp(join(tmpdir(), "kiln-stalls-"))
  const engine = await createEngine({
    store: sqliteStore({ path: join(directory, "kiln.db") }),
    blobs: memoryBlobs(),
    kinds: [jobKind({ name: "work", request, run })],
    settings: { leaseDurationMs, pollIntervalMs: 50 },
    log: (entry) => log.push(entry),
  })
  const stop = async () => {
    await engine.stop()
    await rm(directory, { recursive: true })
  }
  return { engine, said: () => log.map(({ message }) => message).join("\n"), [Symbol.asyncDispose]: stop }
}

describe("an attempt that blocks the event loop past its lease", () => {
  it("counts as a lost worker, and the third one ends its job", patience, async () => {
    let attempts = 0
    await using opened = await openKind(async ({ request: { ms } }) => {
      attempts += 1
      block(ms)
      return { output: {} }
    })
    const { engine, said } = opened
    const job = await engine.submitAndWait("work", { ms: 2 * leaseDurationMs })
    expect(job).toMatchObject({ status: "failed", errorCode: "attempts_exhausted", attempts: 3 })
    expect(attempts).toBe(3)
    expect(said()).toMatch(
      /attempt 1 of job_\w+ \(work\) or a concurrent attempt blocked the event loop past its lease/,
    )
    expect(said()).toMatch(
      /attempt 3 of job_\w+ \(work\) blocked the event loop past its lease, for \d+\.\d s; counted as a lost worker, 3 of 3/,
    )
  })

  it("costs nothing if it ends before the lease does", patience, async () => {
    await using opened = await openKind(async ({ request: { ms } }) => {
      block(ms)
      return { output: {} }
    })
    const { engine, said } = opened
    expect(await engine.submitAndWait("work", { ms: leaseDurationMs / 4 })).toMatchObject({
      status: "done",
      attempts: 1,
    })
    expect(said()).toBe("")
  })
})
