type Encoding = "hex" | "base64url"

/** A key in the form that `createHmac` takes without parsing it again. */
type KeyObject = object

/** The part of `node:crypto` that is used here. */
interface NodeCrypto {
  readonly createSecretKey: (key: Uint8Array) => KeyObject
  readonly createHmac: (
    algorithm: "sha256",
    key: KeyObject,
  ) => { readonly update: (message: string, encoding: "utf8") => { readonly digest: (encoding: Encoding) => string } }
}

/** Runtimes with Node's built-in modules: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:crypto") => NodeCrypto | undefined
}

/**
 * Returns HMAC-SHA-256 with this key, of texts as UTF-8. It is synchronous: Web Crypto answers from another thread, which takes
 * several times as long for a short text. Throws `TypeError` if the runtime has no `node:crypto`, which is looked up here and not
 * imported, so that the rest of the package runs without Node.
 */
export const hmacSha256 = (key: Uint8Array, encoding: Encoding): ((message: string) => string) => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const crypto = process?.getBuiltinModule?.("node:crypto")
  if (crypto === undefined) throw new TypeError("the engine needs node:crypto, which this runtime does not have")
  // A `KeyObject` is parsed once; `createHmac` with raw bytes takes ten times as long.
  const secret = crypto.createSecretKey(key)
  return (message) => crypto.createHmac("sha256", secret).update(message, "utf8").digest(encoding)
}
