// Readers that share no line with the writers under test: each walks a file to its last byte and throws at the first
// thing that is wrong. They return the length in seconds.

const must = (holds: boolean, rule: string): void => {
  if (!holds) throw new Error(`not valid: ${rule}`)
}

const mp3 = (file: Buffer): number => {
  let frames = 0
  for (let at = 0; at < file.length; at += 96, frames++) {
    // MPEG 2, layer III, no checksum; 32 kbit/s, 24 kHz, no padding; mono.
    must(file.toString("hex", at, at + 4) === "fff344c4", `frame header at ${at}`)
    must(
      file.subarray(at + 4, at + 13).every((byte) => byte === 0),
      "silent side information",
    )
  }
  must(file.length === frames * 96, "whole frames")
  return (frames * 576) / 24_000
}

const aac = (file: Buffer): number => {
  let frames = 0
  let at = 0
  for (; at < file.length; frames++) {
    must(file.toString("hex", at, at + 3) === "fff158", "sync word, AAC-LC, 24 kHz")
    // The length is 13 bits: the last two of the fourth byte and so on.
    const length = (file.readUInt32BE(at + 3) >> 13) & 0x1fff
    must(length > 7, "a frame with something in it")
    at += length
  }
  must(at === file.length, "whole frames")
  return (frames * 1024) / 24_000
}

const wav = (file: Buffer): number => {
  must(file.toString("latin1", 0, 4) === "RIFF" && file.readUInt32LE(4) === file.length - 8, "RIFF size")
  must(file.toString("latin1", 8, 16) === "WAVEfmt ", "chunks")
  must(file.readUInt32LE(28) === file.readUInt32LE(24) * file.readUInt16LE(32), "rates")
  must(file.toString("latin1", 36, 40) === "data" && file.readUInt32LE(40) === file.length - 44, "data size")
  return (file.length - 44) / file.readUInt32LE(28)
}

const flac = (file: Buffer): number => {
  must(file.toString("latin1", 0, 4) === "fLaC", "signature")
  const samples = file.readUIntBE(8 + 13, 5) % 2 ** 36
  let at = 4
  for (let isLast = false; !isLast; at += 4 + file.readUIntBE(at + 1, 3)) isLast = file[at]! >= 0x80
  let frames = 0
  while (at < file.length) {
    must(file.toString("hex", at, at + 4) === "fff8c708", `frame header at ${at}`)
    const coded = file.toString("utf8", at + 4, at + 8).codePointAt(0)!
    must(coded === frames, "frame number")
    const header = 4 + (coded < 0x80 ? 1 : coded < 0x800 ? 2 : 3)
    must(crc(file.subarray(at, at + header), 8, 0x07) === file[at + header], "header checksum")
    const end = at + header + 4
    must(crc(file.subarray(at, end), 16, 0x8005) === file.readUInt16BE(end), "frame checksum")
    at = end + 2
    frames++
  }
  must(samples === frames * 4096, "sample count")
  return samples / 24_000
}

const opus = (file: Buffer): number => {
  let samples = 0
  let flags = 0
  let at = 0
  for (let number = 0; at < file.length; number++) {
    must(file.toString("latin1", at, at + 4) === "OggS" && file.readUInt32LE(at + 18) === number, `page ${number}`)
    const sizes = file.subarray(at + 27, at + 27 + file[at + 26]!)
    const end = at + 27 + sizes.length + sizes.reduce((sum, size) => sum + size, 0)
    const page = Buffer.from(file.subarray(at, end))
    const check = page.readUInt32LE(22)
    page.writeUInt32LE(0, 22)
    must(crc(page, 32, 0x04c1_1db7) === check, "page checksum")
    flags = file[at + 5]!
    if (number === 0) must(flags === 2 && page.toString("latin1", 28, 36) === "OpusHead", "head")
    if (number > 1) samples += sizes.length * 960
    must(Number(file.readBigUInt64LE(at + 6)) === samples, "position")
    at = end
  }
  must(at === file.length && flags === 4, "the last page says so")
  return samples / 48_000
}

/** The bit by bit definition. */
const crc = (bytes: Uint8Array, bits: number, polynomial: number): number => {
  let value = 0n
  const top = 1n << BigInt(bits)
  for (const byte of bytes) {
    value ^= BigInt(byte) << BigInt(bits - 8)
    for (let bit = 0; bit < 8; bit++) {
      value <<= 1n
      if (value & top) value ^= top | BigInt(polynomial)
    }
  }
  return Number(value)
}

export const walkAudio = { mp3, aac, wav, flac, opus }
