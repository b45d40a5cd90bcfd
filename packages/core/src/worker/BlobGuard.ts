import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import type { LineageFailure } from "../domain/BlobLineage.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { type BlobStore, type IdGenerator, JobStore } from "../ports/index.ts"
import { continueBlobs, joinBlobs, listEntries, publishNewest, requireCurrentStore } from "./lineage.ts"

/** A running installation adds an entry after this many looks, so a copy that is older than that is recognized at its start. */
const looksPerEntry = 5
/** Looks that every running process has made before a process that has just started removes anything. */
const looksBeforeRemoval = 3

/** A process that sweeps more often than it is told to look looks as often as it sweeps. */
const lookIntervalMs = Effect.map(EngineConfig, ({ blobWatchIntervalMs, orphanIntervalMs }) =>
  Math.min(blobWatchIntervalMs, orphanIntervalMs / looksBeforeRemoval),
)

type Needs = JobStore | BlobStore | IdGenerator

/** Watches that the store and the blob store go together, for one process. */
export class BlobGuard extends Context.Service<
  BlobGuard,
  {
    /** Joins the blob store, once. Fails, and may be repeated, where the store is behind the blobs. */
    readonly join: Effect.Effect<void, LineageFailure>
    /** Looks once whether another copy of the store works with the same blobs, and makes itself known to it. */
    readonly look: Effect.Effect<void, LineageFailure>
    /** How often to look, milliseconds. */
    readonly intervalMs: Effect.Effect<number>
    /** Whether this process has joined so long ago that every other process had the time to object. */
    readonly isSettled: Effect.Effect<boolean>
  }
>()("@kiln/core/worker/BlobGuard") {
  static readonly layer: Layer.Layer<BlobGuard, never, Needs> = Layer.effect(
    BlobGuard,
    Effect.gen(function* () {
      const needs = yield* Effect.context<Needs>()
      const turn = Semaphore.makeUnsafe(1)
      const store = yield* JobStore
      let joined: { readonly atMs: number; newest: string } | undefined
      let known: ReadonlyArray<string> = []
      let enteredAtMs = 0
      let objected = false

      const entered = Effect.fnUntraced(function* ({ entries }: { readonly entries: ReadonlyArray<string> }) {
        known = entries
        enteredAtMs = yield* Clock.currentTimeMillis
        return entries.at(-1) ?? ""
      })

      const join = Effect.gen(function* () {
        if (joined !== undefined) return
        const newest = yield* entered(yield* joinBlobs)
        joined = { atMs: yield* Clock.currentTimeMillis, newest }
      })

      /** Makes this copy known to the other one, which then removes nothing either. Once for each dispute. */
      const object = Effect.gen(function* () {
        if (objected) return
        yield* entered(yield* continueBlobs)
        objected = true
      })

      const look = Effect.gen(function* () {
        if (joined === undefined) return yield* join
        const due = (yield* Clock.currentTimeMillis) - enteredAtMs >= looksPerEntry * (yield* lookIntervalMs)
        const found = yield* listEntries
        // The usual case costs one listing, and leaves the store alone.
        if (!due && found.length > 0 && found.every((entry) => known.includes(entry))) {
          objected = false
          return
        }
        const current = yield* Effect.tapErrorTag(requireCurrentStore, "StoreBehindBlobs", () => object)
        objected = false
        if (!current.lineage.entries.includes(joined.newest)) {
          // The store has forgotten what this process wrote: it was replaced by an older copy meanwhile.
          joined = undefined
          return yield* join
        }
        known = current.lineage.entries
        if (due) joined = { ...joined, newest: yield* entered(yield* continueBlobs) }
        else if (!current.entries.includes(known.at(-1) ?? "")) yield* publishNewest(current.lineage)
      })

      const run = <A, E>(step: Effect.Effect<A, E, Needs>) => turn.withPermits(1)(Effect.provideContext(step, needs))
      return BlobGuard.of({
        join: run(join),
        look: run(look),
        intervalMs: lookIntervalMs,
        isSettled: Effect.gen(function* () {
          if (joined === undefined) return false
          // Nobody else can have it.
          if (!store.capabilities.durable && !store.capabilities.multiProcess) return true
          return (yield* Clock.currentTimeMillis) - joined.atMs >= looksBeforeRemoval * (yield* lookIntervalMs)
        }),
      })
    }),
  )
}
