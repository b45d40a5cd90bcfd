import { createHash } from "node:crypto"
import type { BlobInfo } from "@kiln/core/ports"

// The last 64 bytes of a blob's file:
//
//   8  "kilnblb1"
//   8  length of the blob, big-endian
//  32  SHA-256 of the blob
//  16  SHA-256 of the 48 bytes above, truncated
//
// A footer rather than a header, so that files are written front to back and media players can open them as they are.
// Not a second file, because a crash or a restored backup may leave one without the other.

const MAGIC = Buffer.from("kilnblb1", "latin1")
const CHECKED_BYTES = 48
export const FOOTER_BYTES = 64

export const encodeFooter = ({ bytes, sha256 }: BlobInfo): Uint8Array => {
  const footer = Buffer.alloc(FOOTER_BYTES)
  MAGIC.copy(footer)
  footer.writeBigUInt64BE(BigInt(bytes), 8)
  footer.write(sha256, 16, "hex")
  checkOf(footer).copy(footer, CHECKED_BYTES)
  return footer
}

/** Decodes a footer; `undefined` if the bytes are not a valid footer. */
export const decodeFooter = (footer: Uint8Array): BlobInfo | undefined => {
  const view = Buffer.from(footer.buffer, footer.byteOffset, footer.byteLength)
  if (view.length !== FOOTER_BYTES || !view.subarray(0, 8).equals(MAGIC)) return undefined
  if (!view.subarray(CHECKED_BYTES).equals(checkOf(view))) return undefined
  return { bytes: Number(view.readBigUInt64BE(8)), sha256: view.toString("hex", 16, CHECKED_BYTES) }
}

const checkOf = (footer: Buffer): Buffer =>
  createHash("sha256")
    .update(footer.subarray(0, CHECKED_BYTES))
    .digest()
    .subarray(0, FOOTER_BYTES - CHECKED_BYTES)
