import { crc16 } from "@kiln/core/media"
import { patched, riffChunk, u32, wav, type WavShape } from "../support/files.ts"
import { adtsFrame, slowFrame } from "./frames.ts"
import { family, type HostileFile, largest, noise, times } from "./HostileFile.ts"

/** 8 kHz, 8 bits: 10 MB. */
const minutes = () => Buffer.alloc(8000 * 1250, 0x80)
const bytes8 = { bits: 8, blockBytes: 1 } as const
const second = Buffer.alloc(8000, 0x80)
const long = (shape: Omit<WavShape, "data">) => (): Buffer => wav({ ...bytes8, ...shape, data: minutes() })
const behind = (after: () => Buffer) => (): Buffer => wav({ ...bytes8, data: second, after: after() })
/** Returns the optional fields of a `fmt ` chunk after its first sixteen bytes, as telephones write them. */
const extensible = (valid: number, codec: number): Buffer =>
  Buffer.from([22, 0, valid, 0, 0, 0, 0, 0, codec, 0, 0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113])
const widened = (file: Buffer, more: Buffer): Buffer =>
  Buffer.concat([patched(file, 16, 16 + more.length).subarray(0, 36), more, file.subarray(36)])
const sixteen = { rate: 44_100, channels: 2 } as const
const spdif = Buffer.concat([Buffer.from([0x72, 0xf8, 0x1f, 0x4e, 5, 0, 0, 1]), Buffer.alloc(1528, 0x33)])
/** AC-3 at 48 kHz and 32 kbit/s: 32 ms in 128 bytes, with the checksum. */
const ac3 = (): Buffer => {
  const frame = Buffer.concat([Buffer.from([0x0b, 0x77, 0, 0, 0x00, 0x40, 0x43]), Buffer.alloc(121, 0x33)])
  frame.writeUInt16BE(crc16(frame, 2, 126), 126)
  return frame
}
const ds64 = (bytes: number): Buffer => {
  const chunk = Buffer.alloc(28)
  chunk.writeBigUInt64LE(BigInt(bytes), 8)
  return riffChunk("ds64", chunk)
}
const RIFF = Buffer.from("RIFF\xff\xff\xff\xffWAVE", "latin1")

export const wavFiles: ReadonlyArray<HostileFile> = family("wav", {
  "20 minutes": ["audio_too_long", long({})],
  "20 minutes, says nothing": ["audio_too_long", long({ dataLength: 0 })],
  "20 minutes, says endless": ["audio_too_long", long({ dataLength: 0xffff_ffff })],
  "20 minutes, says a gigabyte a second": ["audio_too_long", long({ byteRate: 1_000_000_000 })],
  "20 minutes, says a second": [1, long({ dataLength: 8000 })],
  "20 minutes in a second piece": ["audio_too_long", behind(() => riffChunk("data", minutes()))],
  "20 minutes behind a piece of odd length that is not padded": [
    "audio_too_long",
    () => {
      const odd = wav({ ...bytes8, data: second.subarray(1) })
      return Buffer.concat([odd, riffChunk("data", minutes())])
    },
  ],
  "20 minutes in a thousand pieces": [
    "audio_unreadable",
    behind(() => times(1250, Buffer.concat([riffChunk("LIST", Buffer.alloc(3)), riffChunk("data", second)]))),
  ],
  "20 minutes, a 64-bit form that says a second twice over": [
    "audio_too_long",
    () => {
      const file = wav({ ...bytes8, form: "RF64", dataLength: 8000, data: minutes() })
      return Buffer.concat([file.subarray(0, 12), ds64(10_000_000), file.subarray(12)])
    },
  ],
  "20 minutes of A-law, eight bytes a sample": ["audio_too_long", long({ codec: 6, bits: 64, blockBytes: 8 })],
  "20 minutes, samples wider than what is valid of them": [
    "audio_too_long",
    () => widened(wav({ codec: 0xfffe, bits: 64, data: minutes() }), extensible(8, 1)),
  ],
  "20 minutes, blocks smaller than their samples": ["audio_too_long", long({ bits: 64, blockBytes: 1 })],
  "20 minutes of GSM, blocks of 64 KiB": [
    "audio_unreadable",
    () => wav({ codec: 0x31, bits: 0, blockBytes: 65_535, data: Buffer.alloc(2_031_250, 0xd2) }),
  ],
  "20 minutes of ADPCM, a gigabyte a second": [
    "audio_too_long",
    () => wav({ codec: 0x11, bits: 4, blockBytes: 256, byteRate: 1e9, data: Buffer.alloc(5_100_000) }),
  ],
  "20 minutes of MP3, said to be that": [
    "audio_too_long",
    () => wav({ codec: 0x55, byteRate: 1e9, data: times(17_400, slowFrame) }),
  ],
  "20 minutes of MP3 where samples should be": [
    "audio_unreadable",
    () => wav({ ...sixteen, data: times(17_400, slowFrame) }),
  ],
  "20 minutes of AAC where samples should be": [
    "audio_unreadable",
    () => wav({ ...sixteen, data: times(9800, adtsFrame) }),
  ],
  "20 minutes of AC-3 where samples should be": [
    "audio_unreadable",
    () => wav({ ...sixteen, data: times(39_000, ac3()) }),
  ],
  "bursts of a digital link where samples should be": [
    "audio_unreadable",
    () => wav({ ...sixteen, data: times(900, spdif) }),
  ],
  "two formats": [
    "audio_unreadable",
    () =>
      wav({
        ...bytes8,
        between: riffChunk("fmt ", Buffer.from([1, 0, 8, 0, 0, 119, 1, 0, 0, 0, 0, 0, 64, 0, 64, 0])),
        data: second,
      }),
  ],
  "four billion samples a second": ["audio_unreadable", long({ rate: 0xffff_ffff })],
  "a sample a second": ["audio_too_long", () => wav({ ...bytes8, rate: 1, data: second })],
  "a codec that is not measured": ["audio_unreadable", long({ codec: 0x161 })],
  "no format": ["audio_unreadable", () => Buffer.concat([RIFF, riffChunk("data", second)])],
  "no audio": ["audio_unreadable", () => wav({ data: second }).subarray(0, 36)],
  "a chunk that ends behind the file": [
    "audio_unreadable",
    () => Buffer.concat([RIFF, Buffer.from("LIST"), u32(0xffff_ffff), second]),
  ],
  "25 MiB of chunks without bytes": ["audio_unreadable", () => largest(RIFF, Buffer.from("JUNK\0\0\0\0"))],
  "25 MiB of chunks without bytes behind a second": [
    1,
    () => largest(wav({ ...bytes8, data: second }), Buffer.from("data\0\0\0\0JUNK\0\0\0\0").subarray(8)),
  ],
  "25 MiB of samples that look like headers": [
    "audio_too_long",
    () => largest(wav({ data: Buffer.alloc(0), dataLength: 0xffff_ffff }), Buffer.from([0xff, 0xe3, 0x18])),
  ],
  "25 MiB of 0xff, loud and fast": [
    137,
    () =>
      largest(wav({ rate: 48_000, channels: 2, data: Buffer.alloc(0), dataLength: 0xffff_ffff }), Buffer.from([0xff])),
  ],
  "25 MiB of noise": [
    137,
    () =>
      Buffer.concat([
        wav({ rate: 48_000, channels: 2, data: Buffer.alloc(0), dataLength: 0xffff_ffff }),
        noise(26_214_300),
      ]),
  ],
  "a byte short": [1, () => wav({ ...bytes8, data: second }).subarray(0, -1)],
  "a byte long": [1, () => Buffer.concat([wav({ ...bytes8, data: second }), Buffer.alloc(1)])],
  "nothing to hear": ["audio_too_short", () => wav({ data: Buffer.alloc(0) })],
})
