/** Joins chunks with this total number of bytes. */
export const concat = (chunks: Iterable<Uint8Array>, bytes: number): Uint8Array => {
  const whole = new Uint8Array(bytes)
  let offset = 0
  for (const chunk of chunks) {
    whole.set(chunk, offset)
    offset += chunk.length
  }
  return whole
}
