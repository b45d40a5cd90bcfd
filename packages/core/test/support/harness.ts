import {
  authorize, builtInKinds, defaultEngineSettings, Engine, EngineConfig, type EngineSettings, type Grant,
  type JobKind, type JobMode, layerCrypto, layerEngine, MediaProbe, type Principal, Providers, type ProviderSet,
} from "@kiln/core"
import type {
  BlobStore, IdGenerator, JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore,
} from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Effect, Layer } from "effect"

export const principal = (mode: JobMode = "sandbox", key = "a"): Principal => ({
  keyId: `key_${key}`,
  projectId: `prj_${key}`,
  mode,
  scopes: ["audio.create", "images.create"],
})

export const grantOf = (who: Principal): Grant => {
  const grant = authorize(who, who.scopes[0] ?? "")
  if (grant === undefined) throw new Error("the principal has no scope")
  return grant
}

export const kind = (name: string): JobKind => {
  const found = builtInKinds().find((one) => one.name === name)
  if (found === undefined) throw new Error(`no kind ${name}`)
  return found
}

/** Providers that answer at once with small valid results. */
export const plainProviders: ProviderSet = {
  transcription: { transcribe: () => Effect.succeed({ text: "hello" }) },
  reply: { reply: () => Effect.succeed({ text: "hi there", outputTokens: 2, truncated: false }) },
  speech: { speak: () => Effect.succeed({ data: new Uint8Array([1, 2, 3]), mediaType: "audio/mpeg" }) },
}

export interface HarnessOptions {
  readonly sandbox?: ProviderSet
  readonly live?: ProviderSet
  readonly settings?: Partial<EngineSettings>
  readonly seconds?: number
  /** Wraps the memory stores, for faults. */
  readonly stores?: typeof MemoryStores.layer
  readonly blobs?: Layer.Layer<BlobStore>
}

type Provided =
  | Engine | Worker | JobStore | UploadStore | BlobStore | Switchboard | IdGenerator | SecretStore | KeyDirectory

/** The real engine and a worker that waits for `tick` or `run`, over the memory stores. */
export const harness = (options: HarnessOptions = {}): Layer.Layer<Provided, unknown> => {
  const adapters = Layer.mergeAll(
    options.stores ?? MemoryStores.layer,
    options.blobs ?? MemoryBlobStore.layer,
    Layer.succeed(Providers, { sandbox: options.sandbox ?? plainProviders, live: options.live ?? {} }),
    Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: options.seconds ?? 3 }) }),
    layerCrypto,
  )
  return Worker.layer.pipe(
    Layer.provideMerge(layerEngine),
    Layer.provideMerge(adapters),
    Layer.provide(Layer.succeed(EngineConfig, { ...defaultEngineSettings, ...options.settings })),
  )
}

/** Accepts a speech job and returns it. */
export const submitSpeech = (key: string, who: Principal = principal()) =>
  Effect.flatMap(Engine, (engine) =>
    Effect.map(engine.createJob(grantOf(who), kind("speech_synthesis"), { input: "hello" }, key), ({ job }) => job),
  )
