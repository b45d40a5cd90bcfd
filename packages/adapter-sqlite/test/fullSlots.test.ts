import { setTimeout as sleep } from "node:timers/promises"
import { expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { sqliteStore } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const slots = 16
const count = 640

// Ends, commits and claims of many slots overlap. The worker polls too rarely to find later what it has missed.
it.live("a worker with many slots fills each of them at once while jobs wait", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.promise(async () => {
      const started: Array<number> = []
      const nap = jobKind({
        name: "nap",
        request: Schema.Struct({}),
        run: async () => {
          started.push(performance.now())
          await sleep(5)
          return { output: {} }
        },
      })
      await using engine = await createEngine({
        store: sqliteStore({ path }),
        blobs: memoryBlobs(),
        kinds: [nap],
        autoStart: false,
        log: false,
        settings: { concurrency: slots, limits: { perProject: 0 }, pollIntervalMs: 20_000, idlePollIntervalMs: 20_000 },
      })
      const submitted = await engine.submitMany(
        "nap",
        Array.from({ length: count }, () => ({ request: {} })),
      )
      await engine.start()
      for (const { job } of submitted) if (job !== undefined) await engine.wait(job.id, { timeoutMs: 60_000 })
      expect(started).toHaveLength(count)
      const pauses = started.map((at, index) => at - (started[index - 1] ?? at))
      expect(Math.max(...pauses)).toBeLessThan(10_000)
    })
  }),
)
