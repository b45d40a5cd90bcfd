import { createHash } from "node:crypto"

/** A digest that a body must have. */
export interface BodyDigest {
  readonly algorithm: "md5" | "sha1" | "sha256" | "sha512"
  readonly value: Buffer
}

export type ParsedDigests =
  | { readonly ok: true; readonly digests: ReadonlyArray<BodyDigest> }
  /** The first header, by its usual spelling, that has no digest that can be verified. */
  | { readonly ok: false; readonly header: string }

const algorithms: Readonly<Record<string, BodyDigest["algorithm"] | undefined>> = {
  __proto__: null as never,
  md5: "md5",
  sha: "sha1",
  "sha-256": "sha256",
  "sha-512": "sha512",
}

const BASE64 = "[A-Za-z0-9+/]+={0,2}"
// RFC 9530: a dictionary of byte sequences. RFC 3230, which it replaces: a list of plain values.
const DICTIONARY_MEMBER = new RegExp(`^([a-z*][a-z0-9_.*-]*)=:(${BASE64}):(?:;.*)?$`)
const LIST_MEMBER = new RegExp(`^([A-Za-z0-9-]+)=(${BASE64})$`)

const membersOf = (values: ReadonlyArray<string>, pattern: RegExp): ReadonlyArray<BodyDigest> =>
  values
    .join(",")
    .split(",")
    .flatMap((member) => {
      const [, name = "", value = ""] = pattern.exec(member.trim()) ?? []
      const algorithm = algorithms[name.toLowerCase()]
      return algorithm === undefined ? [] : [{ algorithm, value: Buffer.from(value, "base64") }]
    })

const readers: Readonly<Record<string, (values: ReadonlyArray<string>) => ReadonlyArray<BodyDigest>>> = {
  // The body is sent whole and without an encoding, so its content is its representation.
  "Content-Digest": (values) => membersOf(values, DICTIONARY_MEMBER),
  "Repr-Digest": (values) => membersOf(values, DICTIONARY_MEMBER),
  Digest: (values) => membersOf(values, LIST_MEMBER),
  "Content-MD5": ([value = "", ...more]) => (more.length === 0 ? membersOf([`md5=${value.trim()}`], LIST_MEMBER) : []),
}

/**
 * Reads the digests of a body from its headers: `Content-Digest` and `Repr-Digest` (RFC 9530), `Digest` (RFC 3230) and
 * `Content-MD5`. Algorithms are SHA-256, SHA-512, SHA-1 and MD5; others beside one of these are ignored. A header without any
 * digest that can be verified must be refused, because its sender relies on the check.
 */
export const parseBodyDigests = (
  header: (lowerCaseName: string) => ReadonlyArray<string> | undefined,
): ParsedDigests => {
  const digests: Array<BodyDigest> = []
  for (const [name, read] of Object.entries(readers)) {
    const values = header(name.toLowerCase())
    if (values === undefined) continue
    const found = read(values)
    if (found.length === 0) return { ok: false, header: name }
    digests.push(...found)
  }
  return { ok: true, digests }
}

/** Computes digests of a body as it passes. */
export const digestVerifier = (digests: ReadonlyArray<BodyDigest>) => {
  const hashes = digests.map(({ algorithm, value }) => ({ hash: createHash(algorithm), value }))
  return {
    update: (piece: Uint8Array): void => {
      for (const { hash } of hashes) hash.update(piece)
    },
    /** Returns whether the body has all of the digests. Must be called once, after the last piece. */
    matches: (): boolean => hashes.every(({ hash, value }) => hash.digest().equals(value)),
  }
}
