import {
  type AttemptFailure,
  createEngine,
  type EmbeddedEngine,
  type EngineSettings,
  type Kind,
  type LogEntry,
  type StoreAdapter,
} from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { plainProviders } from "../support/harness.ts"

export interface OpenOptions {
  readonly store?: StoreAdapter
  readonly settings?: Partial<EngineSettings>
  readonly autoStart?: boolean
  readonly log?: (entry: LogEntry) => void
  readonly onAttemptFailed?: (error: unknown, failure: AttemptFailure) => void
}

/** Retries are immediate, and released jobs are found immediately. */
const quick: Partial<EngineSettings> = {
  attempts: { maxFailures: 3, maxLostWorkers: 3, backoffBaseMs: 1, backoffMaxMs: 2, retryAfterMaxMs: 10 },
  pollIntervalMs: 20,
  claimCheckIntervalMs: 50,
}

/** An engine of these kinds in memory, both modes served. */
export const openWith = <K extends Kind>(
  kinds: ReadonlyArray<K>,
  { autoStart, log, onAttemptFailed, settings, store }: OpenOptions = {},
): Promise<EmbeddedEngine<K>> =>
  createEngine({
    store: store ?? memoryStore(),
    blobs: memoryBlobs(),
    kinds,
    // Which kinds they are is the caller's to say: these providers serve all of them.
    providers: { sandbox: plainProviders as never, live: plainProviders as never },
    settings: { ...quick, ...settings },
    log: log ?? false,
    ...(onAttemptFailed && { onAttemptFailed }),
    ...(autoStart !== undefined && { autoStart }),
  })

/** Returns the message of the error that code throws or rejects with. */
export const messageOf = async (code: () => unknown): Promise<string> => {
  try {
    await code()
  } catch (error) {
    return (error as Error).message
  }
  return "no error"
}
