import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type * as Blobs from "@kiln/adapter-blobs"
import type * as Core from "@kiln/core"
import type * as Postgres from "@kiln/adapter-postgres"
import type * as Sqlite from "@kiln/adapter-sqlite"
import type { Engine, OpenOptions, Payload } from "./Engine.ts"

/** Loads the built package of this name. */
export const loadBuilt = async <Module>(directory: string, name: string): Promise<Module> =>
  (await import(pathToFileURL(join(directory, "packages", name, "dist/index.js")).href)) as Module

interface BulkSubmit {
  /** Absent in checkouts that are older than it. */
  readonly submitMany?: (
    kind: "noop",
    submissions: ReadonlyArray<{ readonly request: Payload }>,
    options?: { readonly transaction: never },
  ) => Promise<ReadonlyArray<{ readonly error?: Error | undefined }>>
  readonly submit: (kind: "noop", request: Payload) => Promise<unknown>
}

/** Adds jobs in one call; throws if the engine refused one of them. */
const submitAll = async (
  engine: BulkSubmit,
  payloads: ReadonlyArray<Payload>,
  transaction?: unknown,
): Promise<void> => {
  if (engine.submitMany === undefined) {
    await Promise.all(payloads.map((payload) => engine.submit("noop", payload)))
    return
  }
  const outcomes = await engine.submitMany(
    "noop",
    payloads.map((request) => ({ request })),
    ...(transaction === undefined ? [] : [{ transaction: transaction as never }]),
  )
  const refused = outcomes.find(({ error }) => error !== undefined)
  if (refused !== undefined) throw new Error("a job was refused", { cause: refused.error })
}

const anyPayload = {
  "~standard": {
    version: 1 as const,
    vendor: "kiln-bench",
    validate: (value: unknown) => ({ value: value as Payload }),
  },
}

const storeFor = async ({ kiln, place }: OpenOptions): Promise<Core.StoreAdapter> => {
  if (place.startsWith("postgres")) {
    const { postgresStore } = await loadBuilt<typeof Postgres>(kiln, "adapter-postgres")
    return postgresStore({ url: place }) as Core.StoreAdapter
  }
  const { sqliteStore } = await loadBuilt<typeof Sqlite>(kiln, "adapter-sqlite")
  return sqliteStore({ path: place }) as Core.StoreAdapter
}

/** Stores no blobs, because no job here has a file: in a directory that this process removes when it ends. */
const blobsFor = async ({ kiln }: OpenOptions): Promise<Core.BlobAdapter> => {
  const { fileBlobs } = await loadBuilt<typeof Blobs>(kiln, "adapter-blobs")
  const directory = mkdtempSync(join(tmpdir(), "kiln-bench-blobs-"))
  process.on("exit", () => rmSync(directory, { recursive: true }))
  return fileBlobs({ directory })
}

/** Waits until at most this many calls are open; a million open promises would measure memory. */
const inChunks = async (
  payloads: ReadonlyArray<Payload>,
  size: number,
  add: (chunk: ReadonlyArray<Payload>) => unknown,
) => {
  for (let from = 0; from < payloads.length; from += size) await add(payloads.slice(from, from + size))
}

export const kiln: Engine = {
  open: async (options) => {
    const core = await loadBuilt<typeof Core>(options.kiln, "core")
    const noop = core.jobKind({
      name: "noop",
      request: anyPayload,
      run: ({ request }) => {
        options.onStart(request)
        return Promise.resolve({ output: {} })
      },
    })
    const engine = await core.createEngine({
      store: await storeFor(options),
      blobs: await blobsFor(options),
      kinds: [noop],
      autoStart: false,
      settings: { concurrency: 500, queueCap: 0, limits: { perProject: 0 } },
    })
    return {
      add: (payload) => engine.submit("noop", payload),
      addMany: (payloads) => inChunks(payloads, 5_000, (chunk) => submitAll(engine, chunk)),
      addInTransaction: (client, payloads) => submitAll(engine, payloads, client),
      start: () => engine.start(),
      isEmpty: async () =>
        (await engine.operator.count({ finishedWithinMs: 1 })).every(
          ({ count, status }) => status === "done" || status === "failed" || count === 0,
        ),
    }
  },
}
