import { join } from "node:path"
import { expect, it } from "vitest"
import { fuzz } from "./support/fuzz.ts"
import { targetNames } from "./support/Target.ts"

const preload = join(import.meta.dirname, "support/plantedListeners.ts")

// Promise 73 of docs/invariants.md.
it.each(targetNames)("hostile connections end %s if nobody handles the errors of requests", async (target) => {
  const environment = { NODE_OPTIONS: `--import=${preload}` }
  const report = await fuzz({ target, connections: 2_000, seed: 1, environment })
  expect(report.failure).toMatch(/aborted|ECONNRESET/)
})
