import { crc32 } from "./crc32.ts"
import type { KeyId, ProjectId } from "./Ids.ts"

/** Test keys make sandbox jobs, live keys make live jobs. */
export type KeyMode = "test" | "live"
/** The mode of a job: a `sandbox` job never reaches a provider and is never charged. */
export type JobMode = "sandbox" | "live"

export const jobModeOf = (mode: KeyMode): JobMode => (mode === "test" ? "sandbox" : "live")

/** A permission of a key. Each job kind names the scope that may create, read and erase its jobs. */
export type KeyScope = string

/** The caller: one key record of one project. "The same key" means the same record, whichever of its secrets was presented. */
export interface Principal {
  readonly keyId: KeyId
  readonly projectId: ProjectId
  readonly mode: JobMode
  readonly scopes: ReadonlyArray<KeyScope>
}

declare const granted: unique symbol
/**
 * Proof that a principal holds a scope. Only `authorize` creates one, so an operation that takes a grant cannot be called
 * unchecked.
 */
export interface Grant<S extends KeyScope = KeyScope> extends Principal {
  readonly [granted]: S
}

/** Returns a grant if the principal holds the scope, otherwise `undefined`. Nothing else creates grants. */
export const authorize = <S extends KeyScope>(principal: Principal, scope: S): Grant<S> | undefined =>
  principal.scopes.includes(scope) ? (principal as Grant<S>) : undefined

/** Returns whether `principal` may see a record: same project, same key record, same mode. */
export const owns = (
  principal: Pick<Principal, "projectId" | "keyId" | "mode">,
  record: { readonly projectId: ProjectId; readonly keyId: KeyId; readonly mode: JobMode },
): boolean =>
  record.projectId === principal.projectId && record.keyId === principal.keyId && record.mode === principal.mode

/**
 * The text of an API key: `kiln_test_` or `kiln_live_`, 256 random bits as 43 base62 characters, and the CRC-32 of all that as 6
 * more. The checksum is a filter, not a protection: a mistyped or invented key is refused without a store lookup, and secret
 * scanners can tell a key from a look-alike.
 */

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const RANDOM_BYTES = 32
const RANDOM_DIGITS = 43 // 62^43 > 2^256 > 62^42
const CHECKSUM_DIGITS = 6 // 62^6 > 2^32 > 62^5
const KEY = /^kiln_(test|live)_[0-9A-Za-z]{49}$/

const encoder = new TextEncoder()

const toBase62 = (value: bigint, digits: number): string => {
  let text = ""
  for (let rest = value; text.length < digits; rest /= 62n) text = ALPHABET.charAt(Number(rest % 62n)) + text
  return text
}

/**
 * Writes a key from 32 random bytes, read as one big-endian number.
 *
 * @throws RangeError unless there are exactly 32 bytes: a key with less randomness must never be issued.
 */
export const formatApiKey = (mode: KeyMode, random: Uint8Array): string =>
  formatSecret("an API key", `kiln_${mode}_`, random)

const formatSecret = (name: string, prefix: string, random: Uint8Array): string => {
  if (random.length !== RANDOM_BYTES) throw new RangeError(`${name} needs exactly ${RANDOM_BYTES} random bytes`)
  const value = random.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  const body = prefix + toBase62(value, RANDOM_DIGITS)
  return body + toBase62(BigInt(crc32(encoder.encode(body))), CHECKSUM_DIGITS)
}

/** Writes a token of the operator's page from 32 random bytes: like an API key, with the prefix `kiln_ops_`. */
export const formatOperatorToken = (random: Uint8Array): string => formatSecret("a token", "kiln_ops_", random)

/** Returns the mode of a key whose pattern and checksum are valid, and `undefined` for any text that kiln cannot have issued. */
export const parseApiKey = (text: string): { readonly mode: KeyMode } | undefined => {
  const mode = KEY.exec(text)?.[1]
  return mode !== undefined && hasChecksum(text) ? { mode: mode === "live" ? "live" : "test" } : undefined
}

const hasChecksum = (text: string): boolean => {
  const bodyLength = text.length - CHECKSUM_DIGITS
  let checksum = 0
  for (let at = bodyLength; at < text.length; at++) checksum = checksum * 62 + ALPHABET.indexOf(text.charAt(at))
  return checksum === crc32(encoder.encode(text), 0, bodyLength)
}

/** Returns whether a text has the pattern and the checksum of an operator's token. */
export const isOperatorToken = (text: string): boolean => /^kiln_ops_[0-9A-Za-z]{49}$/.test(text) && hasChecksum(text)
