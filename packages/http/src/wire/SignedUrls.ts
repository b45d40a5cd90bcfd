import { createHmac, createSecretKey, hash, hkdfSync, timingSafeEqual } from "node:crypto"

/**
 * Signed URLs: a capability to send one upload's file, or to fetch one file, until it expires. Each capability has exactly
 * one spelling; any deviation from the signed form is invalid. A valid signature is necessary but never sufficient: the
 * record is read each time.
 */

/** The purpose of a URL. Each purpose signs with a separate subkey, so no signature is valid for both. */
export type UrlPurpose = "upload" | "download"

export interface SigningKey {
  readonly kid: string
  /** 12 hex digits that tell keys apart. Derived from a subkey, so it says nothing about the key. */
  readonly fingerprint: string
  /** Sign texts with a subkey each, in base64url. The subkeys are derived once by HKDF; the master key is not kept. */
  readonly sign: Readonly<Record<UrlPurpose, (text: string) => string>>
}

/** The first key signs, all keys verify. To rotate, add a new key in front and drop the old one once its last URL has expired. */
export interface SigningKeyring {
  readonly keys: readonly [SigningKey, ...ReadonlyArray<SigningKey>]
}

export type ParsedKeyring =
  | { readonly ok: true; readonly keyring: SigningKeyring }
  | { readonly ok: false; readonly problem: string }

export type UrlVerification =
  /** `expiresAt` is in Unix seconds. */
  { readonly ok: true; readonly expiresAt: number } | { readonly ok: false; readonly reason: "invalid" | "expired" }

/** Seconds a file's URL is valid. */
const fileUrlSeconds = 600
const KEY_BYTES = 32
const KID = /^[a-z0-9_-]{1,32}$/
const BASE64 = /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/

// `e` has no leading zeros or signs and is short enough to be an exact number; `s` is 32 bytes.
const QUERY = /^e=([1-9][0-9]{0,14})&k=([a-z0-9_-]{1,32})&s=([A-Za-z0-9_-]{43})$/
const maxExpires = 999_999_999_999_999
const PATH: Readonly<Record<UrlPurpose, RegExp>> = {
  upload: /^\/v1\/audio\/uploads\/[a-z0-9_]{1,64}\/file$/,
  download: /^\/v1\/files\/[a-z0-9_]{1,64}$/,
}
const METHOD: Readonly<Record<UrlPurpose, string>> = { upload: "PUT", download: "GET" }

/**
 * Parses `kid:base64,kid2:base64` (`KILN_SIGNING_KEYS`): at least 32 bytes each, in base64 or base64url, padding optional.
 * A problem names the position of the entry and the violated rule, never any part of the text.
 */
export const parseKeyring = (text: string): ParsedKeyring => {
  const keys: Array<SigningKey> = []
  for (const [index, part] of text.split(",").entries()) {
    const entry = part.trim()
    const colon = entry.indexOf(":")
    const kid = entry.slice(0, Math.max(colon, 0))
    const problem = (rule: string): ParsedKeyring => ({ ok: false, problem: `entry ${index + 1}: ${rule}` })
    if (colon === -1) return problem("must have the form kid:base64")
    if (!KID.test(kid)) return problem("the kid must be 1 to 32 characters of a-z, 0-9, _ and -")
    if (keys.some((key) => key.kid === kid)) return problem("the kid must be unique")
    const master = decodeBase64(entry.slice(colon + 1))
    if (master === undefined) return problem("the key must be valid base64")
    if (master.length < KEY_BYTES) return problem(`the key must have at least ${KEY_BYTES} bytes`)
    keys.push(signingKey(kid, master))
  }
  const [first, ...rest] = keys
  // split always yields an entry, and empty ones were rejected above.
  return first ? { ok: true, keyring: { keys: [first, ...rest] } } : { ok: false, problem: "must not be empty" }
}

/** Signs the URL for sending one upload's file with PUT. */
export const signUpload = (
  keyring: SigningKeyring,
  url: { readonly publicUrl: string; readonly uploadId: string; readonly expiresAtSeconds: number },
): string => sign(keyring, "upload", url.publicUrl, `/v1/audio/uploads/${url.uploadId}/file`, url.expiresAtSeconds)

/** Returns the second at which a file's URL that is made now expires: it is valid for at least 10 minutes. */
export const fileUrlExpiry = (nowMs: number): number => Math.ceil(nowMs / 1000) + fileUrlSeconds

/** Signs the URL for fetching one file with GET or HEAD. */
export const signDownload = (
  keyring: SigningKeyring,
  url: { readonly publicUrl: string; readonly fileId: string; readonly expiresAtSeconds: number },
): string => sign(keyring, "download", url.publicUrl, `/v1/files/${url.fileId}`, url.expiresAtSeconds)

/**
 * Verifies that a request carries a capability for this purpose. `path` and `rawQuery` (without `?`) are the request's
 * undecoded characters. Valid while `nowSeconds < e`; only genuine URLs are reported as `expired`.
 */
export const verifySignedUrl = (
  keyring: SigningKeyring,
  request: {
    readonly method: string
    readonly path: string
    readonly rawQuery: string
    readonly purpose: UrlPurpose
    readonly nowSeconds: number
  },
): UrlVerification => {
  const { path, purpose } = request
  const method = purpose === "download" && request.method === "HEAD" ? "GET" : request.method
  const [, e, kid, s] = QUERY.exec(request.rawQuery) ?? []
  // Two keys may share a name: a configured one and the one in the store.
  const keys = keyring.keys.filter((candidate) => candidate.kid === kid)
  if (method !== METHOD[purpose] || !PATH[purpose].test(path) || !e || !s) return invalid

  const presented = Buffer.from(s, "base64url")
  // The last of 43 characters has two unused bits, so four spellings decode alike; only one of them is the capability.
  if (presented.toString("base64url") !== s) return invalid
  const isGenuine = (key: SigningKey) =>
    timingSafeEqual(presented, Buffer.from(signatureOf(key, purpose, path, e), "base64url"))
  if (!keys.some(isGenuine)) return invalid
  const expiresAt = Number(e)
  return request.nowSeconds < expiresAt ? { ok: true, expiresAt } : { ok: false, reason: "expired" }
}

const invalid: UrlVerification = { ok: false, reason: "invalid" }

const decodeBase64 = (text: string): Buffer | undefined => {
  if (!BASE64.test(text)) return undefined
  const bytes = Buffer.from(text, "base64")
  // Buffer drops invalid characters; a key truncated while copying must not pass as a different key.
  const digits = text.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_")
  return bytes.toString("base64url") === digits ? bytes : undefined
}

const signingKey = (kid: string, master: Uint8Array): SigningKey => {
  const subKey = (purpose: UrlPurpose) =>
    new Uint8Array(hkdfSync("sha256", master, "", `kiln/signed-url/${purpose}/v1`, KEY_BYTES))
  const [upload, download] = [subKey("upload"), subKey("download")]
  const sign = { upload: signer(upload), download: signer(download) }
  return { kid, fingerprint: hash("sha256", upload, "hex").slice(0, 12), sign }
}

const signer = (subKey: Uint8Array): ((text: string) => string) => {
  // Parsed once: `createHmac` with raw bytes takes ten times as long.
  const key = createSecretKey(subKey)
  return (text) => createHmac("sha256", key).update(text).digest("base64url")
}

const signatureOf = (key: SigningKey, purpose: UrlPurpose, path: string, e: string): string =>
  key.sign[purpose](`kiln1\n${METHOD[purpose]}\n${path}\n${e}\n${key.kid}`)

const sign = (
  keyring: SigningKeyring,
  purpose: UrlPurpose,
  publicUrl: string,
  path: string,
  expires: number,
): string => {
  // A URL that would never verify is a defect, and must not be returned to a client. All signatures have the right form.
  if (!(Number.isInteger(expires) && expires >= 1 && expires <= maxExpires) || !PATH[purpose].test(path))
    throw new RangeError("expected an id and an integer number of Unix seconds")
  const e = String(expires)
  const key = keyring.keys[0]
  const base = publicUrl.endsWith("/") ? publicUrl.replace(/\/+$/, "") : publicUrl
  return `${base}${path}?e=${e}&k=${key.kid}&s=${signatureOf(key, purpose, path, e)}`
}
