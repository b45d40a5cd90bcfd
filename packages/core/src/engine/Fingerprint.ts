import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { canonicalJson, type JsonObject, type StoreUnavailable } from "../domain/index.ts"
import { SecretStore } from "../ports/index.ts"
import { hmacSha256 } from "./hmacSha256.ts"

/** The name of the secret with the key of fingerprints. Every engine has it, and it never changes. */
export const fingerprintSecret = "fingerprint"

/** Tells a repeated request from another one without keeping the request: a keyed digest. */
export class Fingerprint extends Context.Service<
  Fingerprint,
  {
    /**
     * Lower-case hex. Requests that differ only in key order, white space or the spelling of numbers have the same one. `canonical` is
     * the canonical text of the request, for callers that have it.
     */
    readonly of: (kind: string, request: JsonObject, canonical?: string) => string
  }
>()("@kiln/core/engine/Fingerprint") {
  /** The key is made once and lives in the store, apart from signing keys, and is never rotated. */
  static readonly layer: Layer.Layer<Fingerprint, StoreUnavailable, SecretStore | SecureRandom.SecureRandom> =
    Layer.effect(
      Fingerprint,
      Effect.gen(function* () {
        const random = yield* SecureRandom.SecureRandom
        const secrets = yield* SecretStore
        const digest = hmacSha256(yield* secrets.getOrCreate(fingerprintSecret, yield* random.randomBytes(32)), "hex")
        return Fingerprint.of({
          of: (kind, request, canonical = canonicalJson(request)) => digest(`${kind}\n${canonical}`),
        })
      }),
    )
}
