/** Returns whether these characters, one byte each, are at offset `at`. */
export const startsWith = (data: Uint8Array, at: number, text: string): boolean => {
  for (let index = 0; index < text.length; index++) if (data[at + index] !== text.charCodeAt(index)) return false
  return true
}

const views = new WeakMap<Uint8Array, DataView>()

/** Returns the view of these bytes, the same one each time: walkers ask for it at every step. */
export const viewOf = (data: Uint8Array): DataView => {
  const known = views.get(data)
  if (known !== undefined) return known
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  views.set(data, view)
  return view
}
