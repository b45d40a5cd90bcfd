import { join } from "node:path"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { Effect } from "effect"
import { type SeededKey, seedStores } from "../crash/support/seed.ts"

/** What a process needs to run live speech jobs that take as long as their text says: `wait:<milliseconds>`, or that of a `speechGate`. */
export interface LiveSpeech extends SeededKey {
  readonly environment: Readonly<Record<string, string>>
}

/** Prepares an empty data directory. Sandbox jobs cannot keep a slot occupied: a delay they ask for is waited out without one. */
export const liveSpeech = async (dataDirectory: string): Promise<LiveSpeech> => {
  const layer = SqliteStores.layer({ path: join(dataDirectory, "kiln.db") })
  const { live } = await Effect.runPromise(Effect.provide(seedStores, layer))
  const environment = {
    KILN_DATA_DIR: dataDirectory,
    KILN_CONFIG: join(import.meta.dirname, "../fixtures/slowSpeech.config.ts"),
    KILN_PROJECT_CONCURRENCY: "0",
  }
  return { ...live, environment }
}
