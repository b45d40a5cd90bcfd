import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { type BuiltInKind, builtInKinds, createEngine, type EmbeddedEngine } from "@kiln/core"
import { defaultEngineSettings } from "@kiln/core/effect"
import { audioProbe } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"

/** Where the database of a data directory is. */
export const databaseOf = (directory: string): string => join(directory, "kiln.db")

/** A lease in milliseconds: short, because recovery waits for it, and long enough for a traced process. */
const leaseMs = 1_000

/** An engine with its worker over a data directory, with real stores and every sweep in haste. */
export const openEngine = (directory: string, blobs: string = directory): Promise<EmbeddedEngine<BuiltInKind>> =>
  createEngine({
    store: sqliteStore({ path: databaseOf(directory) }),
    blobs: fileBlobs({ directory: blobs }),
    kinds: builtInKinds(),
    probe: audioProbe(),
    providers: { sandbox: sandboxProviders({ steering: true }), live: sandboxProviders({ steering: false }) },
    settings: {
      leaseDurationMs: leaseMs,
      upload: { ...defaultEngineSettings.upload, leaseDurationMs: leaseMs },
      attempts: { ...defaultEngineSettings.attempts, maxLostWorkers: 20 },
      pollIntervalMs: 50,
      drainMs: 5_000,
      sweepIntervalMs: 200,
      pruneIntervalMs: 200,
      orphanIntervalMs: 250,
    },
  })
