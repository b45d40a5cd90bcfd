/** Whether these characters, one byte each, stand at `at`. */
export const startsWith = (data: Uint8Array, at: number, text: string): boolean => {
  for (let index = 0; index < text.length; index++) if (data[at + index] !== text.charCodeAt(index)) return false
  return true
}

/** Four characters as the number they are in a file, for comparing many. */
export const fourCharacters = (text: string): number =>
  [...text].reduce((value, character) => value * 256 + character.charCodeAt(0), 0)

export const viewOf = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.byteLength)

/**
 * More chunks, boxes or elements than any file of the size that is accepted has. The smallest are a few bytes, so a file made
 * of nothing else would keep the event loop busy for long.
 */
export const MAX_PIECES = 500_000
