import { builtInKinds, createEngine } from "@kiln/core"
import { fetchHandler, jobRoute } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { headline } from "./headline.ts"

const open = async () => {
  const engine = await createEngine({
    // Lost when the process ends. `sqliteStore`, `postgresStore`, `fileBlobs` and `unstorageBlobs` persist.
    store: memoryStore(),
    blobs: memoryBlobs(),
    providers: { sandbox: sandboxProviders() },
    kinds: [...builtInKinds(), headline],
  })
  const handler = await fetchHandler(engine, {
    // The prefix is the path of the route's file below `app`.
    publicUrl: `${process.env["PUBLIC_URL"] ?? "http://127.0.0.1:3000"}/api/kiln`,
    routes: [jobRoute(headline, { path: "/v1/headlines" })],
  }).catch(async (error: unknown) => {
    await engine.stop()
    throw error
  })
  return { engine, handler }
}

/** Survives the module, which the development server reloads whenever a file is saved. */
const held = globalThis as typeof globalThis & { kilnOfThisProcess?: ReturnType<typeof open> }

/** Returns the engine and its handler, which are opened once per process, on first use. */
export const kiln = (): ReturnType<typeof open> =>
  (held.kilnOfThisProcess ??= open().catch((error: unknown) => {
    // Try again next time, for example if the database was briefly unavailable.
    delete held.kilnOfThisProcess
    throw error
  }))
