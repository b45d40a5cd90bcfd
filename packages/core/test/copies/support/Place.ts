import {
  defaultEngineSettings,
  Engine,
  EngineConfig,
  type EngineSettings,
  layerCrypto,
  layerEngine,
} from "@kiln/core/effect"
import { builtInKinds, JobKinds } from "@kiln/core/kinds"
import { isFinished } from "@kiln/core/domain"
import { BlobStore, type IdGenerator, JobStore, MediaProbe, type UploadStore } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import { adoptBlobs, BlobGuard, layerSweeps, sweepOrphans, Worker } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Exit, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { grantOf, kind, plainProviders, principal } from "../../support/harness.ts"
import { submitSpeech } from "../../support/jobs.ts"

export const minutes = 60_000
export const hours = 60 * minutes
export const days = 24 * hours

/** Nothing goes by its age, so whatever is gone was taken for an orphan. */
export const settings: EngineSettings = {
  ...defaultEngineSettings,
  upload: { ...defaultEngineSettings.upload, usableForMs: 10_000 * days },
  dataRetentionMs: 0,
  jobRetentionMs: 0,
  blobWatchIntervalMs: 10 * minutes,
  // Of no interest here, and days pass.
  sweepIntervalMs: 6 * hours,
  pruneIntervalMs: 1 * hours,
  idlePruneIntervalMs: 1 * hours,
}

/** Lets woken fibers continue without advancing time. */
const turns = Effect.promise(async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => void setImmediate(resolve))
})

export const pass = (ms: number) => Effect.andThen(TestClock.adjust(ms), turns)

/** One copy of the database. It can be copied again at any moment, and worked with by a process. */
export interface Copy {
  readonly name: string
  text: string | undefined
  process: Process | undefined
}

type Running = Engine | Worker | JobStore | UploadStore | BlobStore | IdGenerator | BlobGuard

interface Process {
  readonly scope: Scope.Closeable
  readonly context: Context.Context<Running>
}

interface SavedState {
  readonly jobs: ReadonlyArray<readonly [string, { readonly files?: ReadonlyArray<{ readonly blobKey: string }> }]>
  readonly uploads: ReadonlyArray<readonly [string, { readonly file: { readonly blobKey: string } | null }]>
}

/** The keys of all blobs that a copy's records name. */
export const namedBy = ({ text }: Copy): ReadonlyArray<string> => {
  if (text === undefined) return []
  const { jobs, uploads } = JSON.parse(text) as SavedState
  return [
    ...jobs.flatMap(([, job]) => (job.files ?? []).map(({ blobKey }) => blobKey)),
    ...uploads.flatMap(([, { file }]) => (file === null ? [] : [file.blobKey])),
  ]
}

/** One blob store, and the copies of the database that are worked with on it. */
export class Place {
  readonly blobs: BlobStore["Service"]
  readonly copies: Array<Copy> = []

  constructor(blobs: BlobStore["Service"]) {
    this.blobs = blobs
    this.copies.push({ name: "first", text: undefined, process: undefined })
  }

  static readonly make = Effect.map(
    Layer.build(MemoryBlobStore.layer),
    (built) => new Place(Context.get(built, BlobStore)),
  )

  backUp(copy: Copy): Copy {
    const backup: Copy = { name: `${copy.name}.${this.copies.length}`, text: copy.text, process: undefined }
    this.copies.push(backup)
    return backup
  }

  readonly #layerOf = (copy: Copy, more: Partial<EngineSettings> = {}) => {
    const stores = MemoryStores.layerPersisted({
      capabilities: { durable: true, multiProcess: true },
      load: Effect.sync(() => copy.text),
      save: (text) => Effect.sync(() => void (copy.text = text)),
    })
    const adapters = Layer.mergeAll(
      stores,
      Layer.succeed(BlobStore, this.blobs),
      Layer.succeed(Providers, { sandbox: plainProviders, live: {} }),
      Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: 3 }) }),
      layerCrypto,
    )
    return BlobGuard.layer.pipe(
      Layer.provideMerge(Worker.layer),
      Layer.provideMerge(layerEngine),
      Layer.provideMerge(adapters),
      Layer.provideMerge(Layer.succeed(EngineConfig, { ...settings, ...more })),
      Layer.provideMerge(Layer.succeed(JobKinds, builtInKinds())),
    )
  }

  /**
   * Starts a process on a copy, as `kiln serve` does: answers whether it started, which it does not where the copy is behind. Or an
   * `embedded` engine, which always starts. With some settings of its own.
   */
  start(copy: Copy, embedded = false, more: Partial<EngineSettings> = {}): Effect.Effect<boolean> {
    return Effect.gen({ self: this }, function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(this.#layerOf(copy, more), scope)
      const joined = yield* Effect.exit(
        embedded ? Effect.void : Effect.provide(Context.get(context, BlobGuard).join, context),
      )
      if (Exit.isFailure(joined)) {
        yield* Scope.close(scope, Exit.void)
        return false
      }
      const given = embedded ? Context.omit(BlobGuard)(context) : context
      yield* Layer.buildWithScope(Layer.provide(layerSweeps, Layer.succeedContext(given)), scope)
      copy.process = { scope, context }
      return true
    }).pipe(Effect.orDie)
  }

  stop(copy: Copy): Effect.Effect<void> {
    const { process } = copy
    copy.process = undefined
    return process === undefined ? Effect.void : Scope.close(process.scope, Exit.void)
  }

  /** As an operator runs `kiln adopt`. */
  adopt(copy: Copy): Effect.Effect<void> {
    return Effect.provide(adoptBlobs, this.#layerOf(copy)).pipe(Effect.orDie, Effect.asVoid)
  }

  /** As an operator runs `kiln blobs sweep --force`. */
  sweep(copy: Copy): Effect.Effect<void> {
    return Effect.provide(
      Effect.andThen(
        Effect.flatMap(BlobGuard, ({ join }) => join),
        sweepOrphans({ force: true }),
      ),
      this.#layerOf(copy),
    ).pipe(Effect.ignore)
  }

  /** Submits a job and runs it to its end. Answers its id. */
  job(copy: Copy, key: string): Effect.Effect<string> {
    return this.#inside(
      copy,
      Effect.gen(function* () {
        const { id } = yield* submitSpeech(key)
        const { tick } = yield* Worker
        const { findJobs } = yield* JobStore
        const read = Effect.map(findJobs([{ jobId: id, principal: principal() }]), ([job]) => job)
        yield* tick
        for (let tries = 0; tries < 50; tries++) {
          const job = yield* read
          if (job !== undefined && isFinished(job)) return id
          yield* pass(20)
        }
        return yield* Effect.die(new Error("the job did not end"))
      }),
    )
  }

  /** Uploads a file. Answers the upload's id. */
  upload(copy: Copy): Effect.Effect<string> {
    return this.#inside(
      copy,
      Effect.gen(function* () {
        const engine = yield* Engine
        const { id } = yield* engine.createUpload(principal(), { format: "wav", declaredSeconds: 3 })
        const content = Stream.succeed(new TextEncoder().encode("RIFF0000WAVEfmt "))
        yield* engine.receiveUpload({ uploadId: id, contentType: "audio/wav", contentLength: undefined, content })
        return id
      }),
    )
  }

  /** Accepts a job that takes an upload, and leaves it in the queue. */
  take(copy: Copy, uploadId: string): Effect.Effect<void> {
    return this.#inside(
      copy,
      Effect.flatMap(Engine, (engine) =>
        Effect.asVoid(engine.createJob(grantOf(principal()), kind("transcription"), { uploadId }, uploadId)),
      ),
    )
  }

  #inside<A, E>(copy: Copy, effect: Effect.Effect<A, E, Running>): Effect.Effect<A> {
    if (copy.process === undefined) return Effect.die(new Error(`${copy.name} is not running`))
    return Effect.orDie(Effect.provide(effect, copy.process.context))
  }

  readonly stored = Effect.suspend(() =>
    Effect.all([Stream.runCollect(this.blobs.list("jobs")), Stream.runCollect(this.blobs.list("uploads"))]),
  ).pipe(
    Effect.map((lists) => new Set(lists.flat())),
    Effect.orDie,
  )

  /** Missing blobs that the records of any copy name. */
  readonly lost = Effect.suspend(() =>
    Effect.map(this.stored, (stored) =>
      this.copies.flatMap((copy) =>
        namedBy(copy)
          .filter((key) => !stored.has(key))
          .map((key) => `${copy.name}: ${key}`),
      ),
    ),
  )
}
