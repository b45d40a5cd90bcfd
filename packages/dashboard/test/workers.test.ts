import * as Effect from "effect/Effect"
import { expect, it, vi } from "vitest"
import { z } from "zod"
import { createEngine, jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { Switchboard } from "@kiln/core/ports"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { deploysOf } from "../src/server/history.ts"
import { workerFields } from "../src/server/installation.ts"

const minuteMs = 60_000
const minuteOf = (minute: number, versions: Record<string, number>) => ({
  at: minute * minuteMs,
  figures: { versions },
})

it("a worker that shuts down is shown as draining until its last job has ended", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const slow = jobKind({
    name: "slow",
    request: z.strictObject({}),
    output: z.object({}),
    run: async () => {
      start()
      await released
      return { output: {} }
    },
  })
  const engine = await createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [slow], log: false })
  const board = await Effect.runPromise(Effect.provideContext(Switchboard, embeddedContext(engine) as never))
  const workers = async () => (await Effect.runPromise(board.listWorkers)).map(workerFields)
  expect(await workers()).toMatchObject([
    { draining: false, last_claim_at: null, name: expect.stringMatching(`:${process.pid}$`) },
  ])
  await engine.submit("slow", {})
  await started
  const stopped = engine.stop()
  await vi.waitFor(
    async () => expect(await workers()).toMatchObject([{ draining: true, last_claim_at: expect.any(String) }]),
    20_000,
  )
  const [draining] = await workers()
  expect(draining?.free).toEqual({ live: draining?.slots, sandbox: (draining?.slots ?? 0) - 1 })
  release()
  await stopped
})

it("a worker is named by its host and process id, except one of an earlier version", async () => {
  const { kinds, limits } = { kinds: [], limits: { slots: 1, share: 0, perProject: 0 } }
  const state = { version: null, draining: false, lastClaimAt: null, free: { live: 1, sandbox: 1 }, loopLagMs: null }
  const published = (named: { readonly name?: string }) =>
    workerFields({
      workerId: "req_0",
      liveKinds: [],
      providers: [],
      scope: { ...limits, kinds, forcedOff: [], state: { ...state, ...named } },
    })
  expect(published({ name: "web-1:42" })).toMatchObject({ name: "web-1:42", worker_id: "req_0" })
  expect(published({}).name).toBeNull()
})

it("a deploy is the first sight of a version, but not of the one that was there first", () => {
  const minutes = [
    { at: 0, figures: {} },
    minuteOf(1, { "1.0.0": 2 }),
    minuteOf(2, { "1.0.0": 2 }),
    minuteOf(13, { "1.0.0": 1, "1.1.0": 1 }),
    minuteOf(14, { "1.1.0": 2 }),
    minuteOf(15, { "1.0.0": 2 }),
  ]
  expect(deploysOf(minutes, minuteMs)).toEqual([{ at: 13 * 60, version: "1.1.0" }])
  expect(deploysOf(minutes, 10 * minuteMs)).toEqual([{ at: 600, version: "1.1.0" }])
  expect(deploysOf([], minuteMs)).toEqual([])
})
