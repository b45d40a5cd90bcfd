import { isArrayBuffer, isBlob, isBytes, isError } from "@kiln/core/domain"

const BASE64_PREFIX = "base64:"

/**
 * What a driver returns for bytes: some a Buffer, some an ArrayBuffer, some the text that unstorage makes for drivers
 * without a raw form, and some an error as a value. Throws for what cannot be read as bytes; `undefined` = no such item.
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
  throw new TypeError(`the storage driver returned a ${typeof value} that is not bytes`)
}
