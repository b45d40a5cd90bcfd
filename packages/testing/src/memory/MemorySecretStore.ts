import { SecretStore } from "@kiln/core/ports"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `SecretStore`. */
export const makeMemorySecretStore = (state: MemoryState): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) =>
      step(() => {
        const secret = state.namedSecrets.get(name) ?? candidate.slice()
        state.namedSecrets.set(name, secret)
        // Bytes cannot be frozen.
        return secret.slice()
      }),
    find: (name) => step(() => state.namedSecrets.get(name)?.slice()),
    replace: (name, expected, value) =>
      step(() => {
        const known = state.namedSecrets.get(name)
        if (String(known) !== String(expected)) return false
        state.namedSecrets.set(name, value.slice())
        return true
      }),
    remove: (name) => step(() => state.namedSecrets.delete(name)),
  })
