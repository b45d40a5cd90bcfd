import {
  blockGroup,
  cluster,
  element,
  fixture,
  lacedBlock,
  simpleBlock,
  u32,
  vorbisPrivate,
  webm,
} from "../support/files.ts"
import { family, type HostileFile, largest, noise, times } from "./HostileFile.ts"

const opus = { number: 1, type: 2, codec: "A_OPUS" }
const vorbis = { number: 1, type: 2, codec: "A_VORBIS", codecPrivate: vorbisPrivate() }
/** Two frames of 60 ms. */
const packet = Buffer.from([0x19, 1, 2, 3])
/** Twenty minutes of packets that all start at the same time. */
const atOnce = (track = 1): Buffer => cluster(0, times(10_400, simpleBlock(track, 0, packet)))
const second = cluster(0, ...Array.from({ length: 50 }, (_, i) => simpleBlock(1, i * 20)))
const laced = (lacing: number, head: ReadonlyArray<number>): Buffer =>
  cluster(0, times(42, lacedBlock(1, 0, lacing, Buffer.concat([Buffer.from([255, ...head]), times(256, packet)]))))
const four = (count: number, byte: number): ReadonlyArray<number> => Array.from({ length: count }, () => byte)
const far = Buffer.from([1, 0x7f, 255, 255, 255, 255, 255, 0])
const duration = element(0x1549a966, element(0x4489, Buffer.from([0x44, 0x7a, 0, 0])))
const tracksAgain = element(
  0x1654ae6b,
  element(0xae, [
    element(0xd7, Buffer.from([2])),
    element(0x83, Buffer.from([2])),
    element(0x86, Buffer.from("A_OPUS")),
  ]),
)
const head = webm([opus])
/** A block of 256 frames that are longer than most blocks. */
const largeBlock = lacedBlock(1, 0, 2, Buffer.concat([Buffer.from([255]), times(256, Buffer.alloc(100, 0x19))]))
const honest = () => fixture("opus.webm")

export const webmFiles: ReadonlyArray<HostileFile> = family("webm", {
  "20 minutes at once": ["audio_too_long", () => webm([opus], atOnce())],
  "20 minutes at once, says a second": ["audio_too_long", () => webm([opus], duration, atOnce())],
  "20 minutes, a nanosecond a tick": [
    "audio_too_long",
    () =>
      webm(
        [opus],
        element(0x2ad7b1, Buffer.from([1])),
        ...Array.from({ length: 1250 }, (_, i) => cluster(i * 1000, times(9, simpleBlock(1, 0, packet)))),
      ),
  ],
  "20 minutes in laces of Xiph": ["audio_too_long", () => webm([opus], laced(1, four(255, 4)))],
  "20 minutes in laces of one size": ["audio_too_long", () => webm([opus], laced(2, []))],
  "20 minutes in laces of EBML": ["audio_too_long", () => webm([opus], laced(3, [0x84, ...four(254, 0xbf)]))],
  "20 minutes in large blocks": ["audio_too_long", () => webm([opus], cluster(0, times(42, largeBlock)))],
  "20 minutes of Vorbis at once": [
    "audio_too_long",
    () => webm([vorbis], cluster(0, times(60_000, simpleBlock(1, 0, Buffer.from([2, 0, 0]))))),
  ],
  "20 minutes in the second track": ["audio_too_long", () => webm([opus, { ...opus, number: 2 }], second, atOnce(2))],
  "20 minutes behind an element that has no end": [
    "audio_unreadable",
    () => webm([opus], second, element(0xec, [], far), atOnce()),
  ],
  "20 minutes behind a block that has no end": [
    "audio_unreadable",
    () => webm([opus], second, element(0xa3, Buffer.from([0x82, 0, 0, 0]), far), atOnce()),
  ],
  "20 minutes behind damage": ["audio_unreadable", () => webm([opus], second, noise(100_000), atOnce())],
  "20 minutes before their description": ["audio_unreadable", () => webm([opus], second, atOnce(2), tracksAgain)],
  "20 minutes packed once more": [
    "audio_unreadable",
    () => webm([{ ...opus, more: element(0x6d80, element(0x6240, element(0x5034, []))) }], second),
  ],
  "samples as no browser writes them": [
    "audio_unreadable",
    () => webm([{ ...opus, codec: "A_PCM/INT/LIT" }], atOnce()),
  ],
  "Vorbis without its tables": [
    "audio_unreadable",
    () => webm([{ ...vorbis, codecPrivate: Buffer.from([2, 1, 1, 0]) }], atOnce()),
  ],
  "a block that lasts an hour": ["audio_too_long", () => webm([opus], cluster(0, blockGroup(1, 0, 3_600_000, packet)))],
  "a cluster in the far future": [
    "audio_too_long",
    () => webm([opus], second, cluster(0xffff_ffff, simpleBlock(1, 0))),
  ],
  "a hundred tracks": [
    "audio_unreadable",
    () =>
      webm(
        Array.from({ length: 100 }, (_, i) => ({ ...opus, number: i + 1 })),
        second,
      ),
  ],
  "laces that contradict their block": ["audio_unreadable", () => webm([opus], laced(1, four(255, 255)))],
  "a length and no block": ["audio_unreadable", () => webm([opus], duration)],
  "elements within elements, two million deep": ["audio_unreadable", () => largest(head, Buffer.from([0xa0, 0xff]))],
  "25 MiB of elements without bytes": ["audio_unreadable", () => largest(head, Buffer.from([0xec, 0x80]))],
  "25 MiB of blocks without bytes": ["audio_unreadable", () => largest(head, Buffer.from([0xa3, 0x80]))],
  "25 MiB of the smallest blocks": [
    "audio_too_long",
    () => largest(Buffer.concat([head, cluster(0)]), Buffer.from([0xa3, 0x85, 0x81, 0, 0, 0, 0x18])),
  ],
  "25 MiB of the beginnings of clusters": [
    "audio_unreadable",
    () => largest(Buffer.concat([head, Buffer.alloc(2)]), Buffer.from([0x1f, 0x43, 0xb6])),
  ],
  "25 MiB of 0x1f": ["audio_unreadable", () => largest(Buffer.concat([head, Buffer.alloc(2)]), Buffer.from([0x1f]))],
  "25 MiB of clusters": ["audio_unreadable", () => largest(head, cluster(0))],
  "25 MiB of descriptions of tracks": ["audio_unreadable", () => largest(head, element(0xae, element(0x86, u32(0))))],
  "25 MiB of zeros behind a second": [1, () => largest(Buffer.concat([head, second]), Buffer.alloc(1))],
  "as a browser records it": [3, () => fixture("opus-live.webm")],
  "cut in its header": ["audio_unreadable", () => honest().subarray(0, 200)],
  "cut in a block": [2, () => honest().subarray(0, 4000)],
  "a byte short": [3, () => honest().subarray(0, -1)],
  "a byte long": [3, () => Buffer.concat([honest(), Buffer.alloc(1)])],
})
