import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { EngineConfig, layerCrypto, layerEngine } from "@kiln/core/effect"
import {
  BlobStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { Providers, type ProviderSet } from "@kiln/core/providers"
import { layerSweeps, Worker } from "@kiln/core/worker"
import { HttpConfig, type HttpNeeds, HttpService, type MountNeeds, Readiness } from "@kiln/http"
import { MediaProbeLive } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer, Logger, ManagedRuntime, References } from "effect"
import { layerProviderDetails, layerWriteReadiness } from "../../../src/Health.ts"
import { layerMounted } from "./layerMounted.ts"
import { createKey } from "@kiln/service-lab"
import { blobDirectory, type Place } from "./Place.ts"
import type { Backstage, Ports, Service, ServiceSettings, StoreName } from "./Service.ts"
import { engineSettings, httpSettings } from "./settings.ts"

/**
 * Starts a service in this process, so that its ports are in the tests' reach; on Postgres two that share nothing but
 * than the database and the blob directory.
 */
export const startInside = async (store: StoreName, settings: ServiceSettings, place: Place): Promise<Service> => {
  const logs: Array<string> = []
  const start = (own: ServiceSettings) =>
    ManagedRuntime.make(layerService(store, own, place).pipe(Layer.provide(layerLogs(logs))))
  const last = start(settings)
  const two = store === "postgres" && settings.oneProcess !== true
  const runtimes = two ? [start({ ...settings, worker: false }), last] : [last]
  const stop = async () => {
    await Promise.all(runtimes.map((runtime) => runtime.dispose()))
  }
  try {
    const [first, ...others] = await Promise.all(runtimes.map((runtime) => runtime.runPromise(HttpService)))
    if (first === undefined) throw new Error("nothing was started")
    const ports = [first.port, ...others.map(({ port }) => port)] as const
    const run = <A>(effect: Effect.Effect<A, unknown, Backstage>) => last.runPromise(effect)
    return { store, ports, settings, logs, run, createKey: (key = {}) => run(createKey(key)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Stores = JobStore | JobDirectory | UploadStore | KeyDirectory | Switchboard | SecretStore | BlobStore

const layerStores = (store: StoreName, place: Place): Layer.Layer<Stores, unknown> => {
  switch (store) {
    case "memory":
      return Layer.merge(MemoryStores.layer, MemoryBlobStore.layer)
    case "sqlite":
      return Layer.merge(SqliteStores.layer({ path: join(place.directory, "kiln.db") }), layerFiles(place))
    case "postgres":
      return Layer.merge(PostgresStores.layer({ url: place.databaseUrl, connectTimeoutMs: 30_000 }), layerFiles(place))
  }
}

const layerFiles = (place: Place) => FileBlobStore.layer({ directory: blobDirectory(place) })

const layerService = (store: StoreName, settings: ServiceSettings, place: Place) => {
  const config = Layer.merge(
    Layer.succeed(EngineConfig, engineSettings(settings)),
    Layer.succeed(HttpConfig, httpSettings(settings)),
  )
  const sandbox = sandboxProviders({ steering: true })
  const { transcript } = settings
  const deaf = transcript === undefined ? {} : { transcription: () => Effect.succeed({ text: transcript }) }
  const providers = Layer.succeed(Providers, {
    sandbox: { ...sandbox, ...deaf, ...(settings.holds === true ? { speech: holding(sandbox.speech) } : {}) },
    live: settings.live === true ? sandboxProviders({ steering: false }) : {},
  })
  const ports = layerWrapped((own) => settings.wrap?.(own, store) ?? {}).pipe(
    Layer.provideMerge(layerStores(store, place)),
  )
  const engine = layerEngine.pipe(Layer.provideMerge(ports), Layer.provide(layerCrypto))
  const worker =
    settings.worker === false ? Layer.empty : Layer.provide(Worker.layerRunning, [providers, MediaProbeLive.layer])
  const readiness = Layer.provideMerge(Layer.merge(layerWriteReadiness, layerProviderDetails), Readiness.layer)
  const server: Layer.Layer<HttpService, unknown, HttpNeeds | MountNeeds> =
    settings.mount === undefined ? HttpService.layer : layerMounted(settings.mount, httpSettings(settings))
  return server.pipe(
    Layer.provide(readiness),
    Layer.merge(worker),
    Layer.merge(layerSweeps),
    Layer.provideMerge(engine),
    Layer.provide(config),
  )
}

const holding =
  (speech: NonNullable<ProviderSet["speech"]>): NonNullable<ProviderSet["speech"]> =>
  (request, call) => {
    const seconds = Number(/^hold:(\d+(?:\.\d+)?)$/.exec(request.text)?.[1] ?? 0)
    return Effect.delay(speech(request, call), seconds * 1_000)
  }

const layerLogs = (logs: Array<string>) =>
  Layer.merge(
    Logger.layer([Logger.map(Logger.formatJson, (line) => void logs.push(line))]),
    Layer.succeed(References.MinimumLogLevel, "All"),
  )

/** Replaces ports with those that a test wrapped. */
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
      return Context.make(JobStore, claimingApart(ports.jobs, own.jobs)).pipe(
        Context.add(UploadStore, ports.uploads),
        Context.add(KeyDirectory, ports.keys),
        Context.add(Switchboard, ports.switchboard),
        Context.add(BlobStore, ports.blobs),
        Context.add(SecretStore, yield* SecretStore),
        Context.add(JobDirectory, yield* JobDirectory),
      )
    }),
  )

/** Makes a creation or completion that also claims call a wrapped verb as well; it then claims nothing. */
const claimingApart = (jobs: Ports["jobs"], own: Ports["jobs"]): Ports["jobs"] =>
  jobs.createJobs === own.createJobs && jobs.completeJobs === own.completeJobs
    ? jobs
    : {
        ...jobs,
        createAndClaimJobs: (items) =>
          Effect.map(jobs.createJobs(items), (created) => ({ created, claimed: undefined })),
        completeAndClaimJobs: (items) =>
          Effect.map(jobs.completeJobs(items), (completed) => ({ completed, claimed: undefined })),
      }
