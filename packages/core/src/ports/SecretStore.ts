import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"

/** Secrets of the installation (signing keys, the fingerprint key), kept in the store so that all its processes share them. */
export class SecretStore extends Context.Service<
  SecretStore,
  {
    /**
     * Returns the secret with this name, and stores `candidate` first if it does not exist. All callers get the same secret, even
     * if they race.
     */
    readonly getOrCreate: (name: string, candidate: Uint8Array) => Effect.Effect<Uint8Array, StoreUnavailable>
    /** Returns the secret with this name; `undefined` if it does not exist. */
    readonly find: (name: string) => Effect.Effect<Uint8Array | undefined, StoreUnavailable>
    /**
     * Replaces the secret with this name if it still is `expected` (`undefined`: does not exist). Returns false and writes
     * nothing if another caller was first.
     */
    readonly replace: (
      name: string,
      expected: Uint8Array | undefined,
      value: Uint8Array,
    ) => Effect.Effect<boolean, StoreUnavailable>
    /** Removes the secret with this name; returns false if it did not exist. Processes that have read it keep their copy. */
    readonly remove: (name: string) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("@kiln/core/ports/SecretStore") {}
