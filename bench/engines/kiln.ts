import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type * as Blobs from "@kiln/adapter-blobs"
import type * as Core from "@kiln/core"
import type * as Telemetry from "@kiln/core/opentelemetry"
import type * as Postgres from "@kiln/adapter-postgres"
import type * as Sqlite from "@kiln/adapter-sqlite"
import type { Drain, Submission } from "../child/Task.ts"
import type { Engine, OpenOptions, Payload } from "./Engine.ts"

/** Loads the built package of this name. */
export const loadBuilt = async <Module>(directory: string, name: string): Promise<Module> =>
  (await import(pathToFileURL(join(directory, "packages", name, "dist/index.js")).href)) as Module

interface BulkSubmit {
  /** Absent in checkouts that are older than it. */
  readonly submitMany?: (
    kind: "noop",
    submissions: ReadonlyArray<{ readonly request: Payload; readonly project?: string }>,
    options?: { readonly transaction: never },
  ) => Promise<ReadonlyArray<{ readonly error?: Error | undefined }>>
  readonly submit: (kind: "noop", request: Payload) => Promise<unknown>
}

/** Adds jobs in one call; throws if the engine refused one of them. */
const submitAll = async (
  engine: BulkSubmit,
  payloads: ReadonlyArray<Payload>,
  transaction?: unknown,
  projects = 1,
): Promise<void> => {
  if (engine.submitMany === undefined) {
    await Promise.all(payloads.map((payload) => engine.submit("noop", payload)))
    return
  }
  const outcomes = await engine.submitMany(
    "noop",
    payloads.map((request, n) => (projects === 1 ? { request } : { request, project: `project-${n % projects}` })),
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
    return postgresStore({ url: place })
  }
  const { sqliteStore } = await loadBuilt<typeof Sqlite>(kiln, "adapter-sqlite")
  return sqliteStore({ path: place })
}

/** Reports to a provider that was not registered, which records nothing: what is left is kiln's own work. */
const telemetryFor = async ({ as, kiln }: OpenOptions) => {
  if (as !== "traced") return {}
  const { openTelemetry } = (await import(
    pathToFileURL(join(kiln, "packages/core/dist/opentelemetry/index.js")).href
  )) as typeof Telemetry
  const api: string = createRequire(join(kiln, "package.json")).resolve("@opentelemetry/api")
  return { telemetry: openTelemetry((await import(pathToFileURL(api).href)) as never) }
}

/** The options of each submission. */
const optionsFor = {
  "live with a price": { mode: "live" },
  "under a spend cap": { mode: "live", project: "capped" },
  "with a tag": { tags: ["one"] },
  unique: { unique: { by: ["at"], while: "unfinished" } },
  "under a cap": {},
  traced: {},
} as const satisfies Record<Submission, object>

/** How jobs of each drain are limited. */
const drainFor: Readonly<
  Record<
    Drain,
    {
      readonly projects?: number
      readonly slots?: number
      readonly perProject?: number
      readonly ofKind?: {
        readonly concurrency?: number
        readonly rate?: { readonly limit: number; readonly perMs: number; readonly burst: number }
      }
    }
  >
> = {
  "200 projects": { projects: 200 },
  "limit 10 a project": { projects: 200, perProject: 10 },
  "limit of a kind": { projects: 200, ofKind: { concurrency: 5_000 } },
  "a rate": { projects: 200, ofKind: { rate: { limit: 1_000_000, perMs: 1_000, burst: 1_000_000 } } },
  "8 slots": { slots: 8 },
  "8 slots, 200 projects": { slots: 8, projects: 200 },
}

const isDrain = (as: OpenOptions["as"]): as is Drain => as !== undefined && Object.hasOwn(drainFor, as)

/** Deletes the records of jobs as soon as they have finished for a second. */
const sweeping = { jobRetentionMs: 1_000, dataRetentionMs: 0, pruneIntervalMs: 1_000, idlePruneIntervalMs: 1_000 }

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
    const { ofKind = {}, perProject = 0, projects = 1, slots = 500 } = isDrain(options.as) ? drainFor[options.as] : {}
    const isPriced = options.as === "live with a price" || options.as === "under a spend cap"
    const noop = core.jobKind({
      name: "noop",
      request: anyPayload,
      limits: ofKind,
      ...(isPriced && { price: "noop", meters: ["jobs"], maxUsage: () => ({ jobs: 1 }) }),
      run: ({ request }) => {
        const ended = options.onStart(request)
        return ended === undefined ? Promise.resolve({ output: {} }) : ended.then(() => ({ output: {} }))
      },
    })
    const engine = await core.createEngine({
      store: await storeFor(options),
      blobs: await blobsFor(options),
      kinds: [noop],
      autoStart: false,
      settings: {
        concurrency: options.slots ?? slots,
        queueCap: options.as === "under a cap" ? 1e9 : 0,
        limits: { perProject },
        ...(options.as === "a sweep" && sweeping),
      },
      ...(await telemetryFor(options)),
    })
    if (isPriced) await engine.operator.setPrice({ name: "noop", currency: "usd", unitAmounts: { jobs: "0.001" } })
    if (options.as === "under a spend cap")
      await engine.operator.setSpendCap({ project: "capped" }, { currency: "usd", day: "1000000" })
    const submission =
      options.as === undefined || options.as === "a sweep" || isDrain(options.as) ? {} : optionsFor[options.as]
    return {
      add: (payload) => engine.submit("noop", payload, submission),
      addMany: (payloads) => inChunks(payloads, 5_000, (chunk) => submitAll(engine, chunk, undefined, projects)),
      addInTransaction: (client, payloads) => submitAll(engine, payloads, client),
      start: () => engine.start(),
      isEmpty: async () =>
        (await engine.operator.count({ finishedWithinMs: 1 })).every(
          ({ count, status }) => status === "done" || status === "failed" || count === 0,
        ),
    }
  },
}
