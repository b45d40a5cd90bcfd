import { chunkAt, dataBytes, viewOf } from "@kiln/core/media"

/** Returns the length of a WAVE file by its bytes per second; 0 if it has no samples. */
export const secondsOfWav = (file: Uint8Array): number => {
  let bytesPerSecond = 0
  for (let chunk = chunkAt(file, 12); chunk !== undefined;) {
    const { body, bytes, name } = chunk
    if (name === "fmt " && body + 12 <= file.length) bytesPerSecond = viewOf(file).getUint32(body + 8, true)
    if (name === "data") return bytesPerSecond === 0 ? 0 : dataBytes(file, body, bytes).bytes / bytesPerSecond
    chunk = chunkAt(file, body + bytes + (bytes % 2))
  }
  return 0
}
