import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { canonicalJson, type JsonObject, type StoreUnavailable } from "../domain/index.ts"
import { SecretStore } from "../ports/index.ts"

/** The part of `node:crypto` that is used here. */
interface NodeCrypto {
  readonly createSecretKey: (key: Uint8Array) => object
  readonly createHmac: (
    algorithm: "sha256",
    key: object,
  ) => { readonly update: (message: string, encoding: "utf8") => { readonly digest: (encoding: "hex") => string } }
}

/** Runtimes with Node's built-in modules: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:crypto") => NodeCrypto | undefined
}

/**
 * Returns HMAC-SHA-256 with this key, of texts as UTF-8, in hex. It is synchronous: Web Crypto answers from another thread, which
 * takes several times as long for a short text. Throws `TypeError` if the runtime has no `node:crypto`, which is looked up here and
 * not imported, so that the rest of the package runs without Node.
 */
export const hmacSha256 = (key: Uint8Array): ((message: string) => string) => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const crypto = process?.getBuiltinModule?.("node:crypto")
  if (crypto === undefined) throw new TypeError("the engine needs node:crypto, which this runtime does not have")
  // Parsed once: `createHmac` with raw bytes takes ten times as long.
  const secret = crypto.createSecretKey(key)
  return (message) => crypto.createHmac("sha256", secret).update(message, "utf8").digest("hex")
}

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
        const digest = hmacSha256(yield* secrets.getOrCreate(fingerprintSecret, yield* random.randomBytes(32)))
        return Fingerprint.of({
          of: (kind, request, canonical = canonicalJson(request)) => digest(`${kind}\n${canonical}`),
        })
      }),
    )
}
