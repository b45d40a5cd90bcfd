import { createHash, randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { defaultEngineSettings, EngineConfig, type EngineSettings, layerCrypto, layerEngine } from "@kiln/core"
import { formatApiKey, type KeyMode } from "@kiln/core/domain"
import {
  BlobStore,
  IdGenerator,
  JobStore,
  KeyDirectory,
  Providers,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { layerSweeps, Worker } from "@kiln/core/worker"
import { defaultHttpSettings, HttpConfig, HttpService, type HttpSettings, type RateLimits, Readiness } from "@kiln/http"
import { MediaProbeLive } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer, Logger, ManagedRuntime, References } from "effect"
import type { Answer } from "./Answer.ts"
import { signingKeys } from "./signing.ts"

export type StoreName = "memory" | "sqlite"
export const storeNames: ReadonlyArray<StoreName> = ["memory", "sqlite"]

/** The ports a test may stand in front of. */
export interface Ports {
  readonly jobs: JobStore["Service"]
  readonly uploads: UploadStore["Service"]
  readonly keys: KeyDirectory["Service"]
  readonly switchboard: Switchboard["Service"]
  readonly blobs: BlobStore["Service"]
}

/** How the service under test differs from an installation with the default settings. */
export interface ServiceSettings {
  readonly engine?: Partial<Omit<EngineSettings, "upload">> & { readonly upload?: Partial<EngineSettings["upload"]> }
  readonly http?: Partial<HttpSettings>
  /** `false`: nothing runs jobs. */
  readonly worker?: boolean
  /** Live jobs have a provider: the sandbox's models. */
  readonly live?: boolean
  /** What the sandbox hears in every file, in place of what it would say. */
  readonly transcript?: string
  /** Stands between the service and its ports. */
  readonly wrap?: (ports: Ports, store: StoreName) => Partial<Ports>
  /** The service may answer 5xx: its ports are made to fail. */
  readonly serverErrors?: boolean
  /** Changes answers on their way to the tests, to see whether these notice. */
  readonly tamper?: (answer: Answer) => Answer
}

/** An API key that exists, with its secret. */
export interface Key {
  readonly secret: string
  readonly id: string
  readonly projectId: `prj_${string}`
  readonly mode: KeyMode
}

export interface NewKey {
  readonly mode?: KeyMode
  readonly scopes?: ReadonlyArray<string>
  /** The project of this key; one of its own when left out. */
  readonly besides?: Key
  readonly expiresAt?: number
}

type Services = JobStore | UploadStore | KeyDirectory | Switchboard | BlobStore | IdGenerator | HttpService

/** A running service, and what tests arrange behind its back. */
export interface Service {
  readonly store: StoreName
  readonly port: number
  readonly settings: ServiceSettings
  /** Where it keeps what it keeps on disk. */
  readonly directory: string
  /** Everything it has logged, at any level, one entry a line. */
  readonly logs: ReadonlyArray<string>
  readonly run: <A>(effect: Effect.Effect<A, unknown, Services>) => Promise<A>
  readonly createKey: (key?: NewKey) => Promise<Key>
  readonly stop: () => Promise<void>
}

/** Not the address it listens on: absolute URLs come from configuration, never from `Host`. */
export const publicUrl = "https://api.kiln.example"

/** Every limit off, so that only the tables about limits meet them. */
const off = { perMinute: 0, burst: 0 }
export const noRateLimits: RateLimits = { create: off, upload: off, read: off, delete: off, authentication: off }

/** Starts a service. A directory that is given is left as it is when the service stops. */
export const startService = async (
  store: StoreName,
  settings: ServiceSettings = {},
  kept?: string,
): Promise<Service> => {
  const directory = kept ?? mkdtempSync(join(tmpdir(), "kiln-contract-"))
  const logs: Array<string> = []
  const runtime = ManagedRuntime.make(layerService(store, settings, directory).pipe(Layer.provide(layerLogs(logs))))
  const run = <A>(effect: Effect.Effect<A, unknown, Services>) => runtime.runPromise(effect)
  const stop = async () => {
    await runtime.dispose()
    if (kept === undefined) rmSync(directory, { recursive: true, force: true })
  }
  try {
    const { port } = await run(HttpService)
    return { store, port, settings, directory, logs, run, createKey: (key = {}) => run(createKey(key)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

const layerService = (store: StoreName, settings: ServiceSettings, directory: string) => {
  const stores = store === "memory" ? MemoryStores.layer : SqliteStores.layer({ path: join(directory, "kiln.db") })
  const blobs =
    store === "memory" ? MemoryBlobStore.layer : FileBlobStore.layer({ directory: join(directory, "blobs") })
  const config = Layer.mergeAll(
    Layer.succeed(EngineConfig, engineSettings(settings)),
    Layer.succeed(HttpConfig, {
      ...defaultHttpSettings,
      port: 0,
      publicUrl,
      signingKeys,
      rateLimits: noRateLimits,
      ...settings.http,
    }),
  )
  const sandbox = sandboxProviders({ steering: true })
  const { transcript } = settings
  const deaf =
    transcript === undefined ? {} : { transcription: { transcribe: () => Effect.succeed({ text: transcript }) } }
  const providers = Layer.succeed(Providers, {
    sandbox: { ...sandbox, ...deaf },
    live: settings.live === true ? sandboxProviders({ steering: false }) : {},
  })
  const ports = layerWrapped((own) => settings.wrap?.(own, store) ?? {}).pipe(
    Layer.provideMerge(Layer.mergeAll(stores, blobs)),
  )
  const engine = layerEngine.pipe(Layer.provideMerge(ports), Layer.provide(layerCrypto))
  const worker =
    settings.worker === false ? Layer.empty : Layer.provide(Worker.layerRunning, [providers, MediaProbeLive.layer])
  return HttpService.layer.pipe(
    Layer.provide(Readiness.layer),
    Layer.merge(worker),
    Layer.merge(layerSweeps),
    Layer.provideMerge(engine),
    Layer.provide(config),
  )
}

const layerLogs = (logs: Array<string>) =>
  Layer.merge(
    Logger.layer([Logger.map(Logger.formatJson, (line) => void logs.push(line))]),
    Layer.succeed(References.MinimumLogLevel, "All"),
  )

/** The defaults, but for pauses no test should wait through. */
const engineSettings = ({ engine = {} }: ServiceSettings): EngineSettings => ({
  ...defaultEngineSettings,
  drainMs: 0,
  // Rows that need a job in processing let it sleep; others must not wait for it.
  concurrency: 64,
  sweepIntervalMs: 100,
  attempts: { ...defaultEngineSettings.attempts, backoffBaseMs: 5, backoffMaxMs: 20 },
  ...engine,
  upload: { ...defaultEngineSettings.upload, ...engine.upload },
})

/** Puts what a test wrapped in the place of the ports themselves. */
const layerWrapped = (wrap: (ports: Ports) => Partial<Ports>) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const own: Ports = {
        jobs: yield* JobStore,
        uploads: yield* UploadStore,
        keys: yield* KeyDirectory,
        switchboard: yield* Switchboard,
        blobs: yield* BlobStore,
      }
      const ports = { ...own, ...wrap(own) }
      return Context.make(JobStore, ports.jobs).pipe(
        Context.add(UploadStore, ports.uploads),
        Context.add(KeyDirectory, ports.keys),
        Context.add(Switchboard, ports.switchboard),
        Context.add(BlobStore, ports.blobs),
        Context.add(SecretStore, yield* SecretStore),
      )
    }),
  )

const createKey = Effect.fnUntraced(function* (key: NewKey) {
  const keys = yield* KeyDirectory
  const ids = yield* IdGenerator
  const mode = key.mode ?? "test"
  const projectId = key.besides?.projectId ?? (yield* ids.next("prj"))
  if (key.besides === undefined) yield* keys.createProject({ id: projectId, name: projectId })
  const secret = formatApiKey(mode, randomBytes(32))
  const record = yield* keys.createKey({
    id: yield* ids.next("key"),
    projectId,
    mode,
    scopes: key.scopes ?? ["audio.create", "images.create"],
    name: null,
    expiresAt: key.expiresAt ?? null,
    secretHash: createHash("sha256").update(secret).digest("hex"),
  })
  if (record === undefined) throw new Error("the key was not made")
  return { secret, id: record.id, projectId, mode } satisfies Key
})
