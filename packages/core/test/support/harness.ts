import { authorize, type Grant, type JobMode, type Principal } from "@kiln/core/domain"
import {
  defaultEngineSettings,
  type Engine,
  EngineConfig,
  type EngineSettings,
  layerCrypto,
  layerEngine,
} from "@kiln/core/effect"
import { builtInKinds, type JobKind } from "@kiln/core/kinds"
import {
  type BlobStore,
  type IdGenerator,
  type JobDirectory,
  type JobStore,
  type KeyDirectory,
  MediaProbe,
  type SecretStore,
  type Switchboard,
  type UploadStore,
} from "@kiln/core/ports"
import { effectProvider, Providers, type ProviderSet } from "@kiln/core/providers"
import { Worker, type WorkerNeeds } from "@kiln/core/worker"
import { defaultAnswers, fakeMp3, MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"

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
  const known: ReadonlyArray<JobKind> = builtInKinds()
  const found = known.find((one) => one.name === name)
  if (found === undefined) throw new Error(`no kind ${name}`)
  return found
}

/** A small valid answer of a speech provider. */
export const mp3 = { data: fakeMp3("hello"), mediaType: "audio/mpeg" }

/** Providers that immediately return small valid results. */
export const plainProviders = {
  transcription: effectProvider("transcription", () => Effect.succeed({ text: "hello" })),
  reply: effectProvider("reply", () => Effect.succeed({ text: "hi there", outputTokens: 2, truncated: false })),
  speech: effectProvider("speech", () => Effect.succeed(mp3)),
  image: effectProvider("image", () => Effect.succeed(defaultAnswers.image)),
} satisfies ProviderSet

/** The plain providers with another voice. */
export const speaks = (speak: NonNullable<ProviderSet["speech"]>) => ({
  ...plainProviders,
  speech: effectProvider("speech", speak),
})

/** What the memory stores provide. */
export type Stores = JobStore | JobDirectory | UploadStore | Switchboard | SecretStore | KeyDirectory

export interface HarnessOptions {
  readonly sandbox?: ProviderSet
  readonly live?: ProviderSet
  readonly settings?: Partial<EngineSettings>
  /** What every file measures. */
  readonly seconds?: number
  /** What happens while a file is measured. */
  readonly whileProbing?: Effect.Effect<void>
  /** Instead of the memory stores, for faults. */
  readonly stores?: Layer.Layer<Stores>
  readonly blobs?: Layer.Layer<BlobStore>
  /** A worker that runs from the start and publishes its live kinds, instead of waiting for a start. */
  readonly worker?: "running"
}

type Provided = Engine | Worker | WorkerNeeds | Stores | BlobStore | IdGenerator

/**
 * A patient virtual clock. The usual one waits at most a second for woken fibers, which is too short on a busy machine, and
 * then continues without them.
 */
const layerClock = TestClock.layer({ warningDelay: "10 seconds" })

/** The real engine and a worker that waits for `tick` or `run`, over the memory stores and a virtual clock. */
const harness = (options: HarnessOptions = {}): Layer.Layer<Provided, unknown> => {
  const adapters = Layer.mergeAll(
    options.stores ?? MemoryStores.layer,
    options.blobs ?? MemoryBlobStore.layer,
    Layer.succeed(Providers, { sandbox: options.sandbox ?? plainProviders, live: options.live ?? {} }),
    Layer.succeed(MediaProbe, {
      probe: () => Effect.as(options.whileProbing ?? Effect.void, { seconds: options.seconds ?? 3 }),
    }),
    layerCrypto,
  )
  return (options.worker === "running" ? Worker.layerRunning : Worker.layer).pipe(
    Layer.provideMerge(layerEngine),
    Layer.provideMerge(adapters),
    Layer.provide(Layer.succeed(EngineConfig, { ...defaultEngineSettings, ...options.settings })),
    Layer.provideMerge(layerClock),
  )
}

/** Runs a test in its own harness. Fibers that the test started end before the harness does. */
export const within =
  (options: HarnessOptions = {}) =>
  <A, E, R>(test: Effect.Effect<A, E, R>) =>
    Effect.provide(Effect.scoped(test), harness(options))
