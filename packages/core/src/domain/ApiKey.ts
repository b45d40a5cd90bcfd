import type { KeyMode } from "./Access.ts"
import { crc32 } from "./crc32.ts"

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
