import { createHash, randomBytes } from "node:crypto"
import { defaultEngineSettings, EngineConfig, type EngineSettings, layerCrypto, layerEngine } from "@kiln/core/effect"
import { formatApiKey, type KeyMode } from "@kiln/core/domain"
import { IdGenerator, JobStore, KeyDirectory, MediaProbe, type Switchboard } from "@kiln/core/ports"
import { Providers, type ProviderSet } from "@kiln/core/providers"
import { Worker } from "@kiln/core/worker"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer, Logger, ManagedRuntime, Metric, Tracer } from "effect"
import {
  defaultHttpSettings,
  HttpConfig,
  HttpObserver,
  HttpService,
  type HttpSettings,
  Readiness,
} from "../../src/index.ts"

/** The length of every uploaded file. */
export const measuredSeconds = 2.5

export interface ServerOptions {
  readonly http?: Partial<HttpSettings>
  readonly upload?: Partial<EngineSettings["upload"]>
  readonly engine?: Partial<EngineSettings>
  readonly sandbox?: ProviderSet
  /** Nothing runs jobs unless this is true. */
  readonly worker?: boolean
  /** Stands in front of the key directory. */
  readonly wrapKeys?: (keys: KeyDirectory["Service"]) => KeyDirectory["Service"]
  /** Wraps the job store. */
  readonly wrapJobs?: (store: JobStore["Service"]) => JobStore["Service"]
  /** Observes every fiber. */
  readonly fibers?: Metric.FiberRuntimeMetricsService
  /** Observes every request. */
  readonly observer?: HttpObserver
  readonly tracer?: Tracer.Tracer
  /** Replaces the memory blob store. */
  readonly blobs?: typeof MemoryBlobStore.layer
}

export interface TestServer extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** Returns the log as text. */
  readonly logged: () => string
  readonly run: <A, E>(
    effect: Effect.Effect<A, E, KeyDirectory | IdGenerator | HttpService | Readiness | Switchboard>,
  ) => Promise<A>
  readonly createKey: (options?: {
    mode?: KeyMode
    scopes?: ReadonlyArray<string>
  }) => Promise<{ secret: string; id: `key_${string}` }>
  readonly stop: () => Promise<void>
}

/** The service over memory stores on a free port. */
export const startServer = async (options: ServerOptions = {}): Promise<TestServer> => {
  const lines: Array<string> = []
  const capture = Logger.map(Logger.formatJson, (line) => void lines.push(line))
  const settings: EngineSettings = {
    ...defaultEngineSettings,
    drainMs: 0,
    ...options.engine,
    upload: { ...defaultEngineSettings.upload, ...options.upload },
  }
  const references = Layer.mergeAll(
    Layer.succeed(EngineConfig, settings),
    Layer.succeed(HttpConfig, { ...defaultHttpSettings, port: 0, ...options.http }),
    Logger.layer([capture]),
    Layer.succeed(Metric.FiberRuntimeMetrics, options.fibers),
    Layer.succeed(HttpObserver, options.observer),
    options.tracer === undefined ? Layer.empty : Layer.succeed(Tracer.Tracer, options.tracer),
  )
  const providers = Layer.succeed(Providers, {
    sandbox: options.sandbox ?? sandboxProviders({ steering: true }),
    live: {},
  })
  const probe = Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: measuredSeconds }) })
  const ports = Layer.mergeAll(MemoryStores.layer, options.blobs ?? MemoryBlobStore.layer)
  const wrapped = Layer.effectContext(
    Effect.map(Effect.all([KeyDirectory, JobStore]), ([keys, jobs]) =>
      Context.make(KeyDirectory, (options.wrapKeys ?? ((same) => same))(keys)).pipe(
        Context.add(JobStore, (options.wrapJobs ?? ((same) => same))(jobs)),
      ),
    ),
  ).pipe(Layer.provideMerge(ports))
  const engine = layerEngine.pipe(Layer.provideMerge(wrapped), Layer.provide(layerCrypto))
  const worker = options.worker === true ? Worker.layerRunning : Layer.empty
  const runtime = ManagedRuntime.make(
    HttpService.layer.pipe(
      Layer.merge(worker),
      Layer.provideMerge(Readiness.layer),
      Layer.provide([providers, probe]),
      Layer.provideMerge(engine),
      Layer.provide(references),
    ),
  )
  const { port, url } = await runtime.runPromise(HttpService)
  const stop = () => runtime.dispose()
  return {
    port,
    url,
    logged: () => lines.join("\n"),
    run: (effect) => runtime.runPromise(effect),
    createKey: (key) => runtime.runPromise(createKey(key ?? {})),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

const createKey = Effect.fnUntraced(function* (options: { mode?: KeyMode; scopes?: ReadonlyArray<string> }) {
  const keys = yield* KeyDirectory
  const ids = yield* IdGenerator
  const mode = options.mode ?? "test"
  const projectId = ids.next("prj")
  yield* keys.createProject({ id: projectId, name: projectId })
  const secret = formatApiKey(mode, randomBytes(32))
  const id = ids.next("key")
  yield* keys.createKey({
    id,
    projectId,
    mode,
    scopes: options.scopes ?? ["audio.create", "images.create"],
    name: null,
    expiresAt: null,
    secretHash: createHash("sha256").update(secret).digest("hex"),
  })
  return { secret, id }
})
