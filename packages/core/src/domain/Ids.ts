/**
 * Identifiers consist of a prefix that names the type, and the 128 bits of a UUIDv7 as 26 lower-case Crockford base32 characters.
 * They sort by creation time, but callers should treat them as opaque.
 */
export type JobId = `job_${string}`
export type UploadId = `upl_${string}`
export type FileId = `fil_${string}`
export type KeyId = `key_${string}`
export type ProjectId = `prj_${string}`
export type RequestId = `req_${string}`
export type OperatorTokenId = `tok_${string}`

/** Every type of identifier, by its prefix. */
export interface IdByPrefix {
  readonly job: JobId
  readonly upl: UploadId
  readonly fil: FileId
  readonly key: KeyId
  readonly prj: ProjectId
  readonly req: RequestId
  readonly tok: OperatorTokenId
}
export type IdPrefix = keyof IdByPrefix

// Crockford's alphabet leaves out i, l, o and u, which people misread.
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
const BODY = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** Formats 16 bytes (a UUIDv7) as an identifier. 128 bits fill 26 characters with two bits to spare, so the first is 0 to 7. */
export const formatId = <P extends IdPrefix>(prefix: P, uuid: Uint8Array): IdByPrefix[P] => {
  // Codes and not a growing text: that would be kept as a tree of 26 pieces, of a kilobyte.
  const codes: Array<number> = []
  let buffer = 0
  let bits = 2 // two leading zero bits make 130 = 26 × 5
  for (const byte of uuid) {
    buffer = (buffer << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      codes.push(ALPHABET.charCodeAt((buffer >> bits) & 31))
    }
    buffer &= (1 << bits) - 1
  }
  return `${prefix}_${String.fromCharCode(...codes)}` as IdByPrefix[P]
}

/** Returns whether a text is a well-formed identifier of this type. Malformed and unknown identifiers get the same response. */
export const isId = <P extends IdPrefix>(prefix: P, text: unknown): text is IdByPrefix[P] =>
  typeof text === "string" && text.startsWith(`${prefix}_`) && BODY.test(text.slice(prefix.length + 1))

/**
 * A well-formed upload id that is never created, because its UUIDv7 would date from 1970. It replaces every malformed id, which
 * must not reach a store but gets the response of an unknown one.
 */
export const unknownUploadId: UploadId = "upl_00000000000000000000000000"

/** Returns the part after the prefix: only `[0-9a-z]`, safe in blob keys and file names. */
export const idBody = (id: string): string => id.slice(id.indexOf("_") + 1)

export const keylessPrefix = "keyless "

/**
 * Returns the idempotency key of a job whose caller gave none. It names the job itself, so no other job has it, and contains a space,
 * as no key of a caller does. A store need not index it.
 */
export const keylessKey = (id: JobId): string => `${keylessPrefix}${id}`

/** The fingerprint of a job whose caller gave no idempotency key: no other request can name it, so none is ever compared with it. */
export const keylessFingerprint = ""

/** Characters that hold the 48 bits of the time, after the two leading zero bits. */
const TIME_LENGTH = 10

/**
 * Returns when an identifier was created, in Unix milliseconds by the clock of the process that created it; `undefined` if the
 * text is not the body of an identifier.
 */
export const idTime = (body: string): number | undefined =>
  BODY.test(body)
    ? Array.from(body.slice(0, TIME_LENGTH), (character) => ALPHABET.indexOf(character)).reduce(
        (time, digit) => time * ALPHABET.length + digit,
      )
    : undefined

/** By the character after the time, which holds the version of a UUIDv7 or of a UUIDv8. */
const promisedVersions: Readonly<Record<string, string>> = { e: "g", f: "h" }

/**
 * Marks the id of a job that is told before the job exists, and may be long before, as a UUIDv8. It sorts like before, but its time says
 * only that the job was not created earlier.
 */
export const promisedId = (id: JobId): JobId => {
  const [start, end] = [id.slice(0, -16), id.slice(-15)]
  const version = id.slice(-16, -15)
  return `${start}${promisedVersions[version] ?? version}${end}` as JobId
}

/** Returns whether the body of an id is that of a promised job. */
export const isPromised = (body: string): boolean => ["g", "h"].includes(body.charAt(TIME_LENGTH))
