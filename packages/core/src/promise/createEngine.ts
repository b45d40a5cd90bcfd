import { Cause, Effect, Exit, Layer, ManagedRuntime, Stream } from "effect"
import { authorize, type Principal, type Upload, type UploadId } from "../domain/index.ts"
import { defaultEngineSettings, Engine, EngineConfig, layerCrypto, layerEngine } from "../engine/index.ts"
import { builtInKinds, JobKinds } from "../kinds/index.ts"
import { IdGenerator, MediaProbe, Providers } from "../ports/index.ts"
import { layerSweeps, Worker } from "../worker/index.ts"
import { concat } from "./concat.ts"
import type { EngineOptions } from "./EngineOptions.ts"
import { type FileRef, type JobResult, jobResult, type KindName, type Requests } from "./JobResult.ts"

export interface SubmitOptions {
  /** A repeat with the same key and the same request returns the same job. Made up where none is given: then every call is a job of its own. */
  readonly idempotencyKey?: string
  /** `sandbox` costs nothing and never reaches a live provider. Default `sandbox`. */
  readonly mode?: "sandbox" | "live"
}

export interface WaitOptions {
  readonly signal?: AbortSignal
}

/** Bytes as programs have them. */
export type FileBody = Uint8Array | AsyncIterable<Uint8Array>

/** The engine for code without Effect. Every method rejects with a tagged error of the engine, or with an `AbortError`. */
export interface EmbeddedEngine extends AsyncDisposable {
  /** Accepts a job; when it resolves, the job survives whatever the store survives. */
  readonly submit: <Name extends KindName>(
    kind: Name,
    request: Requests[Name],
    options?: SubmitOptions,
  ) => Promise<JobResult<Name>>
  readonly get: <Name extends KindName = KindName>(jobId: string) => Promise<JobResult<Name>>
  /** The job once it is finished. */
  readonly wait: <Name extends KindName = KindName>(jobId: string, options?: WaitOptions) => Promise<JobResult<Name>>
  /** Submits and waits. */
  readonly run: <Name extends KindName>(
    kind: Name,
    request: Requests[Name],
    options?: SubmitOptions & WaitOptions,
  ) => Promise<JobResult<Name>>
  /** Deletes what a finished job retains, its files included. */
  readonly erase: (jobId: string) => Promise<void>
  /** Announces an audio file. Its job must have the same mode. */
  readonly createUpload: (
    upload: { readonly format: Upload["format"]; readonly declaredSeconds: number },
    options?: { readonly mode?: "sandbox" | "live" },
  ) => Promise<Upload>
  readonly receiveUpload: (uploadId: UploadId, contentType: string, body: FileBody) => Promise<void>
  /** A generated file, whole. */
  readonly readFile: (file: FileRef) => Promise<Uint8Array>
  /** Lets running jobs finish (up to the drain limit), releases the rest and closes the stores. */
  readonly stop: () => Promise<void>
}

const allScopes = ["audio.create", "images.create"]
const callerOf = (mode: "sandbox" | "live"): Principal => ({
  // One program is one caller; modes are kept apart, as everywhere.
  projectId: "prj_embedded",
  keyId: mode === "sandbox" ? "key_embedded_sandbox" : "key_embedded_live",
  mode,
  scopes: allScopes,
})

const noProbe = Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: undefined }) })

const layerOf = (options: EngineOptions): Layer.Layer<Engine | IdGenerator, unknown> => {
  const kinds = options.kinds ?? builtInKinds()
  const references = Layer.mergeAll(
    Layer.succeed(EngineConfig, { ...defaultEngineSettings, ...options.settings }),
    Layer.succeed(JobKinds, kinds),
  )
  const adapters = Layer.mergeAll(
    options.store,
    options.blobs,
    options.probe ?? noProbe,
    Layer.succeed(Providers, { sandbox: options.providers.sandbox ?? {}, live: options.providers.live ?? {} }),
    layerCrypto,
  )
  const engine = options.worker === false ? layerEngine : Worker.layerRunning.pipe(Layer.provideMerge(layerEngine))
  return Layer.provideMerge(layerSweeps, engine).pipe(Layer.provide(adapters), Layer.provide(references))
}

/** Puts an engine together and starts it. Rejects when a store cannot be opened. */
export const createEngine = async (options: EngineOptions): Promise<EmbeddedEngine> => {
  const runtime = ManagedRuntime.make(layerOf(options))
  const context = await runtime.context().catch(async (error: unknown) => {
    await runtime.dispose()
    throw error
  })
  const closing = new AbortController()
  const run: Run = async (effect, signal) => {
    signal?.throwIfAborted()
    closing.signal.throwIfAborted()
    const either = signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal])
    const exit = await Effect.runPromiseExit(Effect.provide(effect, context), { signal: either })
    if (Exit.isSuccess(exit)) return exit.value
    if (Cause.hasInterruptsOnly(exit.cause)) either.throwIfAborted()
    throw Cause.squash(exit.cause)
  }
  const stop = () => {
    closing.abort(new DOMException("the engine is closed", "AbortError"))
    return runtime.dispose()
  }
  return { ...jobOperations(run), ...fileOperations(run), stop, [Symbol.asyncDispose]: stop }
}

/** Runs an operation as a promise; aborting it interrupts it. */
type Run = <A, E>(effect: Effect.Effect<A, E, Engine | IdGenerator>, signal?: AbortSignal) => Promise<A>

const jobOperations = (run: Run): Pick<EmbeddedEngine, "submit" | "get" | "wait" | "run" | "erase"> => {
  /** A job is looked for under both modes: which one it has is part of the job, not of the question. */
  const inItsMode = <A, E>(use: (engine: Engine["Service"], principal: Principal) => Effect.Effect<A, E>) =>
    Engine.use((engine) =>
      Effect.catchIf(use(engine, callerOf("sandbox")), isJobNotFound, () => use(engine, callerOf("live"))),
    )

  const submit: EmbeddedEngine["submit"] = (kind, request, { idempotencyKey, mode = "sandbox" } = {}) =>
    run(
      Effect.gen(function* () {
        const engine = yield* Engine
        const ids = yield* IdGenerator
        const jobKind = engine.kinds.find(({ name }) => name === kind)
        if (jobKind === undefined) return yield* Effect.die(new TypeError(`unknown job kind: ${kind}`))
        const grant = authorize({ ...callerOf(mode), scopes: [jobKind.keyScope] }, jobKind.keyScope)
        if (grant === undefined) return yield* Effect.die(new TypeError(`no grant for ${jobKind.keyScope}`))
        const { job } = yield* engine.createJob(grant, jobKind, request, idempotencyKey ?? (yield* ids.next("req")))
        return jobResult(job)
      }),
    )

  const wait = <Name extends KindName = KindName>(jobId: string, { signal }: WaitOptions = {}) =>
    run(
      Effect.map(
        inItsMode((engine, who) => engine.waitForJob(who, jobId)),
        (job) => jobResult<Name>(job),
      ),
      signal,
    )

  return {
    submit,
    wait,
    get: <Name extends KindName = KindName>(jobId: string) =>
      run(
        Effect.map(
          inItsMode((engine, who) => engine.getJob(who, jobId)),
          (job) => jobResult<Name>(job),
        ),
      ),
    run: async (kind, request, options) => wait((await submit(kind, request, options)).id, options),
    erase: (jobId) => run(inItsMode((engine, who) => engine.eraseJobData(who, jobId))),
  }
}

const fileOperations = (run: Run): Pick<EmbeddedEngine, "createUpload" | "receiveUpload" | "readFile"> => ({
  createUpload: (upload, { mode = "sandbox" } = {}) =>
    run(Engine.use((engine) => engine.createUpload(callerOf(mode), upload))),
  receiveUpload: (uploadId, contentType, body) =>
    run(
      Engine.use((engine) =>
        engine.receiveUpload({
          uploadId,
          contentType,
          contentLength: body instanceof Uint8Array ? body.length : undefined,
          content: body instanceof Uint8Array ? Stream.succeed(body) : Stream.fromAsyncIterable(body, (cause) => cause),
        }),
      ),
    ),
  readFile: (ref) =>
    run(
      Engine.use((engine) =>
        Effect.gen(function* () {
          const file = yield* engine.findFile(ref.id)
          const { content } = yield* engine.openFile(file)
          return concat(yield* Stream.runCollect(content), file.bytes)
        }),
      ),
    ),
})

const isJobNotFound = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "JobNotFound"
