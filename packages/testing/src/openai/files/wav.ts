const SAMPLE_RATE = 24_000

/** Creates a tone as 16-bit mono samples, little-endian. The first samples are the bytes of `seed`, so that each tone is unique. */
export const tone = (seed: Buffer, seconds: number): Buffer => {
  const hertz = 200 + (seed.readUInt16BE(0) % 400)
  const oneSecond = Buffer.alloc(SAMPLE_RATE * 2)
  for (let sample = 0; sample < SAMPLE_RATE; sample++) {
    oneSecond.writeInt16LE(Math.round(8000 * Math.sin((2 * Math.PI * hertz * sample) / SAMPLE_RATE)), sample * 2)
  }
  // A second contains an integer number of waves, so seconds follow each other without a click.
  const samples = Buffer.alloc(Math.round(seconds * SAMPLE_RATE) * 2)
  for (let at = 0; at < samples.length; at += oneSecond.length) oneSecond.copy(samples, at)
  seed.copy(samples)
  return samples
}

export const wav = (seed: Buffer, seconds: number): Buffer => {
  const samples = tone(seed, seconds)
  const header = Buffer.alloc(44)
  header.write("RIFF", 0)
  header.writeUInt32LE(36 + samples.length, 4)
  header.write("WAVEfmt ", 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(SAMPLE_RATE, 24)
  header.writeUInt32LE(SAMPLE_RATE * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write("data", 36)
  header.writeUInt32LE(samples.length, 40)
  return Buffer.concat([header, samples])
}

/** Returns the duration of the samples present; `undefined` if the file is not a WAV. */
export const wavSeconds = (file: Uint8Array): number | undefined => {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.length)
  if (bytes.toString("latin1", 0, 4) !== "RIFF" || bytes.toString("latin1", 8, 12) !== "WAVE") return undefined
  let bytesPerSecond = 0
  for (let at = 12; at + 8 <= bytes.length;) {
    const kind = bytes.toString("latin1", at, at + 4)
    const size = bytes.readUInt32LE(at + 4)
    if (kind === "fmt " && at + 24 <= bytes.length) bytesPerSecond = bytes.readUInt32LE(at + 16)
    // A streaming recorder does not know the size and writes the maximum.
    if (kind === "data") {
      return bytesPerSecond === 0 ? undefined : Math.min(size, bytes.length - at - 8) / bytesPerSecond
    }
    at += 8 + size + (size % 2)
  }
  return undefined
}
