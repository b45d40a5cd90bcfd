import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { builtInKinds, createEngine } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { expect, it } from "vitest"
import { jsonStore } from "./JsonStores.ts"

it("a promise engine runs on it, and finds its jobs again", async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-json-engine-"))
  try {
    const store = jsonStore({ path: join(directory, "kiln.json") })
    const parts = { store, blobs: memoryBlobs(), kinds: builtInKinds() }
    const first = await createEngine({ ...parts, worker: false })
    const { id } = await first.submit("speech_synthesis", { input: "hello" }, { priority: "high" })
    await first.stop()
    await using second = await createEngine({ ...parts, providers: { sandbox: sandboxProviders() } })
    expect(await second.wait(id)).toMatchObject({ status: "done", priority: "high", attempts: 1 })
    expect(await second.operator.count()).toEqual([
      { kind: "speech_synthesis", mode: "sandbox", status: "done", count: 1 },
    ])
  } finally {
    rmSync(directory, { recursive: true })
  }
})
