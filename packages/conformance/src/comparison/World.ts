import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { MemoryStores } from "@kiln/testing"
import type { Opening, Stores } from "../Check.ts"
import type { StoreCapabilities } from "@kiln/core/ports"

/** The compared store: an open session, and its place if it outlives sessions. */
export type Compared = Opening<Stores> & { readonly capabilities?: StoreCapabilities | undefined }

/** The stores a history is performed on. */
export interface World {
  readonly reference: Context.Context<Stores>
  /** The opening of the other store that is next to act; openings take turns. */
  readonly actor: () => Context.Context<Stores>
  /** The opening to look through: not the one that acted last, where there are several. */
  readonly watcher: () => Context.Context<Stores>
  /**
   * Closes one of the openings and opens the place again; with `abandon`, where the store allows several openings, the
   * old one is not closed before the end: so does a process that hangs.
   */
  readonly reopen: (which: number, abandon: boolean) => Effect.Effect<void, unknown>
}

interface OpenStore {
  readonly context: Context.Context<Stores>
  readonly scope: Scope.Closeable
}

const openIn = Effect.fnUntraced(function* (layer: Layer.Layer<Stores, unknown>, parent: Scope.Scope) {
  const scope = yield* Scope.fork(parent)
  const context: Context.Context<Stores> = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
  return { context, scope } satisfies OpenStore
})

/** Opens an empty reference and an empty store to compare with it, at once through two openings where that is declared. */
export const openWorld = Effect.fnUntraced(function* (
  compared: Compared,
  referenceLayer: Layer.Layer<Stores, unknown> = MemoryStores.layer,
): Effect.fn.Return<World, unknown, Scope.Scope> {
  const parent = yield* Effect.scope
  const { context: reference } = yield* openIn(referenceLayer, parent)
  const several = compared.place !== undefined && compared.capabilities?.multiProcess === true
  const layer = compared.place === undefined ? compared.layer : yield* compared.place
  const openings = yield* Effect.forEach(several ? [0, 1] : [0], () => openIn(layer, parent))
  let turn = 0
  const at = (n: number): Context.Context<Stores> => {
    const opening = openings[n % openings.length]
    if (opening === undefined) throw new Error("expected at least one opening")
    return opening.context
  }
  return {
    reference,
    actor: () => at(turn++),
    watcher: () => at(turn),
    reopen: Effect.fnUntraced(function* (which, abandon) {
      if (compared.place === undefined) return
      const n = which % openings.length
      const old = openings[n]
      if (old !== undefined && !(abandon && several)) yield* Scope.close(old.scope, Exit.void)
      openings[n] = yield* openIn(layer, parent)
    }),
  }
})
