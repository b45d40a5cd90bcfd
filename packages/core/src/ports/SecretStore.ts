import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"

/** Secrets of the installation (signing keys, the fingerprint key), kept in the store so that all its processes share them. */
export class SecretStore extends Context.Service<
  SecretStore,
  {
    /** The secret of this name; `candidate` becomes it if there is none yet. All callers get the same one, also when they race. */
    readonly getOrCreate: (name: string, candidate: Uint8Array) => Effect.Effect<Uint8Array, StoreUnavailable>
    /** Returns the secret of this name, and makes none; `undefined` when there is none. */
    readonly find: (name: string) => Effect.Effect<Uint8Array | undefined, StoreUnavailable>
    /** Removes the secret of this name; false when there was none. Processes that have read it keep their copy. */
    readonly remove: (name: string) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("@kiln/core/ports/SecretStore") {}
