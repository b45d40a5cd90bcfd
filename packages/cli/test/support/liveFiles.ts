import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { type BuiltInKind, builtInKinds, createEngine, type EmbeddedEngine } from "@kiln/core"
import { audioProbe } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"

/** An engine that works on a data directory, as a server would. */
export const engineOn = (directory: string): Promise<EmbeddedEngine<BuiltInKind>> =>
  createEngine({
    store: sqliteStore({ path: join(directory, "kiln.db") }),
    blobs: fileBlobs({ directory }),
    kinds: builtInKinds(),
    probe: audioProbe(),
    providers: { sandbox: sandboxProviders({ steering: true }), live: sandboxProviders({ steering: false }) },
    log: false,
  })

/** Runs a job that leaves a file. Returns its id. */
export const speak = async (engine: EmbeddedEngine<BuiltInKind>, input: string): Promise<string> => {
  const job = await engine.submitAndWait("speech_synthesis", { input }, { timeoutMs: 60_000 })
  return job.id
}
