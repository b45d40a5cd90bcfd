import { builtInKinds, createEngine } from "@kiln/core"
import { fetchHandler, jobRoute } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { headline } from "./headline.ts"

const open = async () => {
  const engine = await createEngine({
    // Forgotten with the process; `sqliteStore` and `postgresStore`, `fileBlobs` and `unstorageBlobs` are not.
    store: memoryStore(),
    blobs: memoryBlobs(),
    providers: { sandbox: sandboxProviders() },
    kinds: [...builtInKinds(), headline],
  })
  const handler = await fetchHandler(engine, {
    // The prefix is where the file of the route is, below `app`.
    publicUrl: `${process.env["PUBLIC_URL"] ?? "http://127.0.0.1:3000"}/api/kiln`,
    routes: [jobRoute(headline, { path: "/v1/headlines" })],
  }).catch(async (error: unknown) => {
    await engine.stop()
    throw error
  })
  return { engine, handler }
}

/** Outlives the module, which a development server reloads whenever a file is saved. */
const held = globalThis as typeof globalThis & { kilnOfThisProcess?: ReturnType<typeof open> }

/** The engine and its handler: opened when they are first asked for, once in a process. */
export const kiln = (): ReturnType<typeof open> =>
  (held.kilnOfThisProcess ??= open().catch((error: unknown) => {
    // A database that was away for a moment is asked again.
    delete held.kilnOfThisProcess
    throw error
  }))
