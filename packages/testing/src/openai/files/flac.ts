import { checksum } from "./checksum.ts"
import { framesIn } from "./frames.ts"

const SAMPLES = 4096
const SAMPLE_RATE = 24_000
const headerCheck = checksum(8, 0x07)
const frameCheck = checksum(16, 0x8005)

/** Creates silent FLAC, mono, 24 kHz, 16 bits, with `seed` in an APPLICATION block. */
export const flac = (seed: Buffer, seconds: number): Buffer => {
  const frames = framesIn(seconds, (SAMPLES / SAMPLE_RATE) * 1000)
  const application = Buffer.concat([Buffer.from("test"), seed])
  return Buffer.concat([
    Buffer.from("fLaC"),
    Buffer.of(0x00, 0, 0, 34),
    streamInfo(frames),
    Buffer.of(0x82, 0, 0, application.length),
    application,
    ...Array.from({ length: frames }, (_, number) => frame(number)),
  ])
}

const streamInfo = (frames: number): Buffer => {
  const info = Buffer.alloc(34)
  info.writeUInt16BE(SAMPLES, 0)
  info.writeUInt16BE(SAMPLES, 2)
  // 20 bits of sample rate, 3 of channels minus one, 5 of bits per sample minus one, 36 of samples; a zero MD5 means unknown.
  const rest = (BigInt(SAMPLE_RATE) << 44n) | (15n << 36n) | BigInt(frames * SAMPLES)
  info.writeBigUInt64BE(rest, 10)
  return info
}

const frame = (number: number): Buffer => {
  // Fixed block size; 4096 samples at 24 kHz; mono, 16 bits.
  const header = Buffer.from([0xff, 0xf8, 0xc7, 0x08, ...codedNumber(number)])
  // One constant subframe, with the value zero.
  const whole = Buffer.concat([header, Buffer.of(headerCheck(header), 0x00, 0x00, 0x00)])
  const check = Buffer.alloc(2)
  check.writeUInt16BE(frameCheck(whole))
  return Buffer.concat([whole, check])
}

/** Encodes a frame number like a character in UTF-8. Two bytes suffice for almost six minutes, longer than any text. */
const codedNumber = (number: number): ReadonlyArray<number> =>
  number < 0x80 ? [number] : [0xc0 | (number >> 6), 0x80 | (number & 0x3f)]
