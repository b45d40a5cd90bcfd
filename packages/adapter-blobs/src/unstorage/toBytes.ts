import { isArrayBuffer, isBlob, isBytes, isError } from "@kiln/core/domain"

const BASE64_PREFIX = "base64:"

/**
 * Converts a driver's value to bytes. Drivers return a Buffer, an ArrayBuffer, the text that unstorage makes for drivers
 * without a raw form, or an error as a value. Throws for values that are not bytes; `undefined` if the item does not exist.
 */
export const toBytes = async (value: unknown): Promise<Uint8Array | undefined> => {
  if (value === null || value === undefined) return undefined
  if (isError(value)) throw value
  if (isBytes(value)) return value
  if (isArrayBuffer(value)) return new Uint8Array(value)
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (isBlob(value)) return new Uint8Array(await value.arrayBuffer())
  if (typeof value === "string" && value.startsWith(BASE64_PREFIX))
    return Buffer.from(value.slice(BASE64_PREFIX.length), "base64")
  throw new TypeError(`the storage driver returned a ${typeof value} instead of bytes`)
}
