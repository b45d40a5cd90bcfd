/** The part of `node:crypto` that is used here. */
interface NodeCrypto {
  readonly createSecretKey: (bytes: Uint8Array) => object
  readonly createHmac: (algorithm: "sha256", key: object) => Hmac
}
interface Hmac {
  readonly update: (message: string) => Hmac
  readonly digest: (encoding: "hex") => string
}

/** What runtimes with Node's built-in modules have: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:crypto") => NodeCrypto | undefined
}

/**
 * Returns HMAC-SHA-256 with this key, of texts as UTF-8, in lower-case hex. It is synchronous: Web Crypto answers from another
 * thread, which costs several times as much for a short text. Throws `TypeError` where the runtime has no `node:crypto`, which
 * is asked for here and not imported: the rest of the package runs without Node.
 */
export const hmacSha256 = (key: Uint8Array): ((message: string) => string) => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const crypto = process?.getBuiltinModule?.("node:crypto")
  if (crypto === undefined) throw new TypeError("the engine needs node:crypto, which this runtime does not have")
  // Made once: with the raw bytes, each digest would take ten times as long.
  const secret = crypto.createSecretKey(key)
  return (message) => crypto.createHmac("sha256", secret).update(message).digest("hex")
}
