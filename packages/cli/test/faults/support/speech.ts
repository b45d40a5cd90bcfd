import { createHash } from "node:crypto"

/** A WAV file of noise that follows from `seed`, 16,000 samples a second, 16 bits. */
export const noise = (seed: number, seconds: number): Uint8Array => {
  const samples = Math.round(16_000 * seconds)
  const file = Buffer.alloc(44 + 2 * samples)
  file.write("RIFF", 0, "latin1")
  file.writeUInt32LE(36 + 2 * samples, 4)
  file.write("WAVEfmt ", 8, "latin1")
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(16_000, 24)
  file.writeUInt32LE(32_000, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write("data", 36, "latin1")
  file.writeUInt32LE(2 * samples, 40)
  let state = seed >>> 0 || 1
  for (let at = 44; at < file.length; at += 2) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    file.writeInt16LE((state % 8_000) | 0, at)
  }
  return file
}

/** Lower-case hex. */
export const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")
