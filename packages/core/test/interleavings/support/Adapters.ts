import { BlobStore, JobDirectory, JobStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer, Stream } from "effect"

/** The ports whose calls travel. */
export interface Adapters {
  readonly jobs: JobStore["Service"]
  readonly directory: JobDirectory["Service"]
  readonly uploads: UploadStore["Service"]
  readonly blobs: BlobStore["Service"]
  readonly board: Switchboard["Service"]
}

/** Fresh, empty memory stores. */
export const memoryAdapters: Effect.Effect<Adapters> = Effect.scoped(
  Effect.map(Layer.build(Layer.fresh(Layer.merge(MemoryStores.layer, MemoryBlobStore.layer))), (built) => ({
    jobs: Context.get(built, JobStore),
    directory: Context.get(built, JobDirectory),
    uploads: Context.get(built, UploadStore),
    blobs: Context.get(built, BlobStore),
    board: Context.get(built, Switchboard),
  })),
)

export const asContext = (adapters: Adapters) =>
  Context.make(JobStore, adapters.jobs).pipe(
    Context.add(JobDirectory, adapters.directory),
    Context.add(UploadStore, adapters.uploads),
    Context.add(BlobStore, adapters.blobs),
    Context.add(Switchboard, adapters.board),
  )

/** How calls reach a store and answers come back. */
export interface Travel {
  /** A request, once sent, arrives, whether or not its sender still waits; its answer takes its time as well. */
  readonly call: <A, E>(verb: string, effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Waits for a turn. */
  readonly turn: (label: string) => Effect.Effect<void>
}

/** The same ports, a way off. */
export const traveling = (near: Adapters, { call, turn }: Travel): Adapters => ({
  jobs: everyVerb(near.jobs, call),
  directory: everyVerb(near.directory, call),
  uploads: everyVerb(near.uploads, call),
  board: everyVerb(near.board, call),
  blobs: {
    // An interrupted `put` must leave nothing readable. It can be interrupted before it arrives and while bytes arrive, but not
    // between the moment the blob exists and the response.
    put: (key, content, options) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.tap(
          restore(Effect.andThen(turn(`put ${key}`), near.blobs.put(key, content, options))),
          turn(`put ${key} answered`),
        ),
      ),
    open: (key, range) => call(`open ${key}`, near.blobs.open(key, range)),
    remove: (prefix) => call(`remove ${prefix}`, near.blobs.remove(prefix)),
    list: (prefix) => Stream.fromIterableEffect(call(`list ${prefix}`, Stream.runCollect(near.blobs.list(prefix)))),
  },
})

type AnyVerb = (...args: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown>

const everyVerb = <Verbs extends object>(verbs: Verbs, call: Travel["call"]): Verbs =>
  Object.fromEntries(
    Object.entries(verbs).map(([name, verb]: [string, unknown]) => [
      name,
      typeof verb === "function"
        ? (...args: ReadonlyArray<unknown>) => call(name, (verb as AnyVerb)(...args))
        : Effect.isEffect(verb)
          ? call(name, verb as Effect.Effect<unknown, unknown>)
          : verb,
    ]),
  ) as Verbs
