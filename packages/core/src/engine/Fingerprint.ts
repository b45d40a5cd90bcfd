import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Hex from "effect/encoding/Hex"
import * as Mac from "effect/crypto/Mac"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { canonicalJson, type JsonObject, type StoreUnavailable } from "../domain/index.ts"
import { SecretStore } from "../ports/index.ts"

/** Tells a repeated request from another one without keeping the request: a keyed digest. */
export class Fingerprint extends Context.Service<
  Fingerprint,
  {
    /** Lower-case hex. Requests that differ only in key order, white space or the spelling of numbers have the same one. */
    readonly of: (kind: string, request: JsonObject) => Effect.Effect<string>
    /** The same at once, for who has an HMAC-SHA-256 that need not be waited for. */
    readonly ofSync: (
      kind: string,
      request: JsonObject,
      hmacSha256: (key: Uint8Array, message: Uint8Array) => Uint8Array,
    ) => string
  }
>()("@kiln/core/engine/Fingerprint") {
  /** The key is made once and lives in the store, apart from signing keys and never rotated. */
  static readonly layer: Layer.Layer<Fingerprint, StoreUnavailable, SecretStore | Mac.Mac | SecureRandom.SecureRandom> =
    Layer.effect(
      Fingerprint,
      Effect.gen(function* () {
        const mac = yield* Mac.Mac
        const random = yield* SecureRandom.SecureRandom
        const secrets = yield* SecretStore
        const bytes = yield* secrets.getOrCreate("fingerprint", yield* random.randomBytes(32))
        const key = yield* Effect.orDie(Mac.key(Mac.hmacSha256, bytes))
        const encoder = new TextEncoder()
        const messageOf = (kind: string, request: JsonObject) => encoder.encode(`${kind}\n${canonicalJson(request)}`)
        return Fingerprint.of({
          of: (kind, request) =>
            mac.sign(key, messageOf(kind, request)).pipe(
              Effect.map((tag) => Hex.encode(tag)),
              // Signing with a key of our own cannot fail on account of the request.
              Effect.orDie,
            ),
          ofSync: (kind, request, hmacSha256) => Hex.encode(hmacSha256(bytes, messageOf(kind, request))),
        })
      }),
    )
}
