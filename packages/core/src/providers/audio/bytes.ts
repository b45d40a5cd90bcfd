/** Returns whether these characters, one byte each, are at offset `at`. */
export const startsWith = (data: Uint8Array, at: number, text: string): boolean => {
  for (let index = 0; index < text.length; index++) if (data[at + index] !== text.charCodeAt(index)) return false
  return true
}

/** Returns four characters as the 32-bit number they form in a file, for fast comparison. */
export const fourCharacters = (text: string): number =>
  [...text].reduce((value, character) => value * 256 + character.charCodeAt(0), 0)

export const viewOf = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.byteLength)

/**
 * Maximum number of chunks, boxes or elements, more than any valid file of the accepted size has. The smallest take a few bytes,
 * so a file of nothing else would block the event loop for long.
 */
export const MAX_PIECES = 500_000
