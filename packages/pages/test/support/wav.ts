/** The header of a WAV file with 8-bit or 16-bit samples, for a number of bytes of samples. */
export const wavHeader = (dataBytes: number, bytesPerSecond: number): Uint8Array => {
  const is16Bit = bytesPerSecond > 16_000
  const channels = is16Bit ? 2 : 1
  const width = is16Bit ? 2 : 1
  const head = Buffer.alloc(44)
  head.write("RIFF", 0)
  head.writeUInt32LE(36 + dataBytes, 4)
  head.write("WAVEfmt ", 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(bytesPerSecond / channels / width, 24)
  head.writeUInt32LE(bytesPerSecond, 28)
  head.writeUInt16LE(channels * width, 32)
  head.writeUInt16LE(8 * width, 34)
  head.write("data", 36)
  head.writeUInt32LE(dataBytes, 40)
  return head
}
