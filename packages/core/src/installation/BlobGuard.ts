import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import type { LineageFailure } from "../domain/BlobLineage.ts"
import { BlobUnavailable } from "../domain/index.ts"
import { presenceOf } from "../engine/blobs.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { BlobStore, type IdGenerator, JobStore } from "../ports/index.ts"
import { continueBlobs, joinBlobs, listEntries, publishNewest, requireCurrentStore } from "./lineage.ts"

/** A running installation adds an entry after this many checks, so an older copy is recognized when it starts. */
const checksPerEntry = 5
/** Checks that every running process completes before a process that has just started may remove anything. */
const checksBeforeRemoval = 3

const emptied =
  "the blob store no longer has the entries of this installation: it was emptied, or another one is in its place. No job is accepted or " +
  "run until they are back; see whether KILN_BLOBS names the right, mounted place"

/** If a process sweeps more often than it should check, it checks as often as it sweeps. */
const checkIntervalMs = Effect.map(EngineConfig, ({ blobWatchIntervalMs, orphanIntervalMs }) =>
  Math.min(blobWatchIntervalMs, orphanIntervalMs / checksBeforeRemoval),
)

type Needs = JobStore | BlobStore | IdGenerator

/** Checks, for one process, that the store is not an older copy of the one whose blobs it uses. */
export class BlobGuard extends Context.Service<
  BlobGuard,
  {
    /** Joins the blob store, once. Fails if the store is behind the blobs, and can then be repeated. */
    readonly join: Effect.Effect<void, LineageFailure>
    /** Checks once whether another copy of the store uses the same blobs. If so, adds an entry that the other copy notices. */
    readonly look: Effect.Effect<void, LineageFailure>
    /** The interval between checks, in milliseconds. */
    readonly intervalMs: Effect.Effect<number>
    /** Whether this process joined long enough ago for every other process to have noticed it. */
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
      let objection: string | undefined
      /** Whether the blob store had entries before. */
      let hasEntries = false
      const presence = presenceOf(yield* BlobStore)

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

      /**
       * Adds an entry that the other copy notices, which then removes nothing either. Again only once that entry is gone, because an
       * operator adopted the other copy although this process still writes files.
       */
      const object = Effect.gen(function* () {
        if (objection !== undefined && (yield* listEntries).includes(objection)) return
        objection = yield* entered(yield* continueBlobs)
      })
      const objecting = <A>(step: Effect.Effect<A, LineageFailure, Needs>) =>
        Effect.tapErrorTag(step, "StoreBehindBlobs", () => object)

      const look = Effect.gen(function* () {
        // An embedded engine runs without having joined.
        if (joined === undefined) return yield* objecting(join)
        const due = (yield* Clock.currentTimeMillis) - enteredAtMs >= checksPerEntry * (yield* checkIntervalMs)
        const found = yield* listEntries
        if (found.length > 0) {
          hasEntries = true
          presence.report(undefined)
        } else if (hasEntries) {
          // Not published again: it would make an empty store look like this installation's.
          const loss = new BlobUnavailable({ operation: "list", cause: new Error(emptied) })
          presence.report(loss)
          return yield* Effect.fail(loss)
        }
        // Usually one listing suffices, and the store is not read.
        if (!due && found.length > 0 && found.every((entry) => known.includes(entry))) {
          objection = undefined
          return
        }
        const current = yield* objecting(requireCurrentStore)
        objection = undefined
        if (!current.lineage.entries.includes(joined.newest)) {
          // The store has lost this process's entry: it was replaced by an older copy.
          joined = undefined
          return yield* objecting(join)
        }
        known = current.lineage.entries
        if (due) joined = { ...joined, newest: yield* entered(yield* continueBlobs) }
        else if (!current.entries.includes(known.at(-1) ?? "")) yield* publishNewest(current.lineage)
      })

      const run = <A, E>(step: Effect.Effect<A, E, Needs>) => turn.withPermits(1)(Effect.provideContext(step, needs))
      return BlobGuard.of({
        join: run(join),
        look: run(look),
        intervalMs: checkIntervalMs,
        isSettled: Effect.gen(function* () {
          if (joined === undefined) return false
          // No other process can use it.
          if (!store.capabilities.durable && !store.capabilities.multiProcess) return true
          return (yield* Clock.currentTimeMillis) - joined.atMs >= checksBeforeRemoval * (yield* checkIntervalMs)
        }),
      })
    }),
  )
}
