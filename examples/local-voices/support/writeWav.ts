export interface WavFormat {
  readonly sampleRate: number
  readonly channels: number
  readonly bits: number
  readonly float?: boolean
  /** Uses the extensible format tag, which hides the real one. */
  readonly extensible?: boolean
}

/** Returns a WAV file of samples from -1 to 1, by channel. */
export const writeWav = (format: WavFormat, samples: ReadonlyArray<Float32Array>): Uint8Array => {
  const { bits, channels, extensible = false, float = false, sampleRate } = format
  const bytes = bits / 8
  const count = samples[0]?.length ?? 0
  const formatBytes = extensible ? 40 : 16
  const file = Buffer.alloc(28 + formatBytes + count * channels * bytes)
  file.write("RIFF", 0)
  file.writeUInt32LE(file.length - 8, 4)
  file.write("WAVEfmt ", 8)
  file.writeUInt32LE(formatBytes, 16)
  const tag = float ? 3 : 1
  file.writeUInt16LE(extensible ? 0xfffe : tag, 20)
  file.writeUInt16LE(channels, 22)
  file.writeUInt32LE(sampleRate, 24)
  file.writeUInt32LE(sampleRate * channels * bytes, 28)
  file.writeUInt16LE(channels * bytes, 32)
  file.writeUInt16LE(bits, 34)
  if (extensible) file.writeUInt16LE(tag, 44)
  file.write("data", 20 + formatBytes)
  file.writeUInt32LE(count * channels * bytes, 24 + formatBytes)
  for (let i = 0; i < count; i++)
    for (const [channel, { [i]: sample = 0 }] of samples.entries()) {
      const at = 28 + formatBytes + (i * channels + channel) * bytes
      if (float) file.writeFloatLE(sample, at)
      else if (bits === 8) file.writeUInt8(Math.round(sample * 0x7f) + 128, at)
      else file.writeIntLE(Math.round(sample * (2 ** (bits - 1) - 1)), at, bytes)
    }
  return file
}

/** A tone at half of the maximum amplitude. */
export const tone = (hertz: number, sampleRate: number, seconds: number): Float32Array =>
  Float32Array.from({ length: sampleRate * seconds }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hertz * i) / sampleRate))
