type Encoding = "hex" | "base64url"
type Hash = (algorithm: "sha256", bytes: Uint8Array, encoding: Encoding | "latin1") => string

/** The part of `node:crypto` that is used here. */
interface NodeCrypto {
  /** Absent in older runtimes. */
  readonly hash?: Hash
  readonly createHash: (algorithm: "sha256") => {
    readonly update: (bytes: Uint8Array) => { readonly digest: (encoding: Encoding | "latin1") => string }
  }
}

/** What runtimes with Node's built-in modules have: Node, Deno, Bun, and Workers in their Node mode. */
interface NodeProcess {
  readonly getBuiltinModule?: (id: "node:crypto") => NodeCrypto | undefined
}

const blockBytes = 64
const digestBytes = 32
/** Length of the UTF-8 of a message for which no buffer is allocated. */
const shortBytes = 4_096

const utf8 = new TextEncoder()

/** Writes a digest in Latin-1, one character a byte. */
const writeDigest = (digest: string, into: Uint8Array, offset: number): void => {
  for (let at = 0; at < digestBytes; at++) into[offset + at] = digest.charCodeAt(at)
}

/** Returns the key as the first block of what is hashed, each byte combined with `pad`, before room for `more` bytes. */
const padded = (key: Uint8Array, pad: number, more: number): Uint8Array =>
  new Uint8Array(blockBytes + more).map((_, at) => (at < blockBytes ? (key[at] ?? 0) ^ pad : 0))

/**
 * Returns HMAC-SHA-256 with this key, of texts as UTF-8. It is synchronous: Web Crypto answers from another thread, which costs
 * several times as much for a short text. It hashes twice, as RFC 2104 defines it, because each `createHmac` allocates native state
 * that takes twice as long as both hashes. Throws `TypeError` where the runtime has no `node:crypto`, which is asked for here and
 * not imported: the rest of the package runs without Node.
 */
export const hmacSha256 = (key: Uint8Array, encoding: Encoding): ((message: string) => string) => {
  const { process } = globalThis as { readonly process?: NodeProcess }
  const crypto = process?.getBuiltinModule?.("node:crypto")
  if (crypto === undefined) throw new TypeError("the engine needs node:crypto, which this runtime does not have")
  const hash: Hash = crypto.hash ?? ((name, bytes, as) => crypto.createHash(name).update(bytes).digest(as))
  const block = new Uint8Array(blockBytes)
  if (key.length > blockBytes) writeDigest(hash("sha256", key, "latin1"), block, 0)
  else block.set(key)
  const inner = padded(block, 0x36, shortBytes)
  const outer = padded(block, 0x5c, digestBytes)
  const text = inner.subarray(blockBytes)
  return (message) => {
    // A UTF-16 code unit is at most three bytes.
    const isShort = 3 * message.length <= shortBytes
    const bytes = isShort
      ? inner.subarray(0, blockBytes + utf8.encodeInto(message, text).written)
      : withText(inner, utf8.encode(message))
    writeDigest(hash("sha256", bytes, "latin1"), outer, blockBytes)
    return hash("sha256", outer, encoding)
  }
}

const withText = (inner: Uint8Array, text: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(blockBytes + text.length)
  bytes.set(inner.subarray(0, blockBytes))
  bytes.set(text, blockBytes)
  return bytes
}
