import { aac, box, fixture, ftyp, patched, soundEntry, stts, u32 } from "../support/files.ts"
import { aacFrame, edits, fragment, mp4, stco, stsc, stsz, type TrackShape } from "../support/mp4.ts"
import { adtsFrame, slowFrame } from "./frames.ts"
import { family, type HostileFile, largest, noise, times } from "./HostileFile.ts"

const HUGE = 0xffff_ffff
const zeros = (bytes: number): Buffer => Buffer.alloc(bytes)
const mdat = box("mdat", zeros(100))

/** Frames of 64 ms: 20 minutes of them, and a second. */
const FRAMES = 20_000
const slow = aac(16_000)
const frames = (count: number): ReadonlyArray<Buffer> => Array.from({ length: count }, () => aacFrame)
const long: TrackShape = { entry: slow, ticksPerSecond: 16_000, samples: frames(FRAMES) }
const second: TrackShape = { samples: frames(46) }

/** A track of samples of one size that other tables than its own claim. */
const claiming = (entry: Buffer, data: Buffer, ...tables: ReadonlyArray<Buffer>): TrackShape => ({
  entry,
  ticksPerSecond: 1000,
  samples: [data],
  tables: (at) => [...tables, stsc(1, 1, 1), stco(at)],
})
const oneSample = (entry: Buffer, data: Buffer): Buffer =>
  mp4([claiming(entry, data, stts([1, 1000]), stsz(data.length, 1))])

/** Packets of 120 ms in four bytes each: two frames of 60 ms. */
const packet = Buffer.from([0x19, 1, 2, 3])
const opus = soundEntry("Opus", 48_000, box("dOps", zeros(11)))
const opusTrack: TrackShape = { entry: opus, samples: Array.from({ length: 10_400 }, () => packet), ticks: 5760 }
const opusFragments = (): Buffer =>
  Buffer.concat([
    mp4([{ entry: opus }], { defaults: [5760, 4] }),
    times(10, fragment(1, { samples: 1040 }, times(1040, packet))),
  ])
const alac = soundEntry("alac", 8000, box("alac", zeros(4), u32(4096), zeros(16), u32(8000)))
const timeless = fragment(1, { samples: 500 }, times(500, aacFrame))
const timescale = (file: Buffer, value: number): Buffer => patched(file, file.indexOf("mdhd") + 16, ...u32(value))
const nested = (depth: number): Buffer => {
  const all = zeros(depth * 8)
  for (let i = 0; i < depth; i++) all.set([...u32((depth - i) * 8), ...Buffer.from("moov")], i * 8)
  return all
}
const honest = () => fixture("moov-first.m4a")

const forged = family("mp4", {
  "20 minutes of frames, said to last a tick each": [
    "audio_too_long",
    () => mp4([{ ...long, tables: (at) => [stts([9, 2], [HUGE, 1]), stsz(4, FRAMES), stsc(1, FRAMES, 1), stco(at)] }]),
  ],
  "20 minutes of frames, four billion ticks a second": ["audio_too_long", () => timescale(mp4([long]), HUGE)],
  "20 minutes of frames that are not there": [
    1,
    () => mp4([{ ...second, tables: (at) => [stts([46, 1024]), stsz(4, FRAMES), stsc(1, FRAMES, 1), stco(at)] }]),
  ],
  "20 minutes of frames that are there once": [
    "audio_unreadable",
    () =>
      mp4([
        {
          ...second,
          tables: (at) => [
            stts([FRAMES, 1024]),
            stsz(4, FRAMES),
            stsc(1, 20, 1),
            stco(...Array.from({ length: 1000 }, () => at)),
          ],
        },
      ]),
  ],
  "20 minutes of sizes behind the end of their box": [
    "audio_unreadable",
    () =>
      mp4([
        {
          ...second,
          tables: (at) => [
            stts([46, 1024]),
            stsz(0, FRAMES, u32(4)),
            box("free", zeros(FRAMES * 4)),
            stsc(1, FRAMES, 1),
            stco(at),
          ],
        },
      ]),
  ],
  "20 minutes in the second track": ["audio_too_long", () => mp4([second, long])],
  "20 minutes in a track that is not called sound": [
    "audio_unreadable",
    () => mp4([second, { ...long, handler: "data" }]),
  ],
  "20 minutes in the hundredth track": [
    "audio_unreadable",
    () => mp4([...Array.from({ length: 99 }, () => second), long]),
  ],
  "20 minutes in a second track of the same number": ["audio_unreadable", () => mp4([second, { ...long, id: 1 }])],
  "20 minutes in a track within another box": [
    "audio_unreadable",
    () => mp4([second], { inMovie: box("udta", box("trak", zeros(99))) }),
  ],
  "a second, played a thousand times": [
    "audio_too_long",
    () => mp4([{ ...second, inTrack: edits(...Array.from({ length: 1250 }, () => [1000, 0] as const)) }]),
  ],
  "20 minutes, of which an edit plays a second": [
    "audio_too_long",
    () => mp4([{ ...long, inTrack: edits([1000, 0]) }]),
  ],
  "20 minutes in fragments without times": [
    "audio_too_long",
    () => Buffer.concat([mp4([{ entry: slow }], { defaults: [0, 4] }), times(40, timeless)]),
  ],
  "20 minutes in fragments behind a second": [
    "audio_too_long",
    () =>
      Buffer.concat([
        mp4([{ ...second, entry: slow, ticksPerSecond: 16_000 }], { defaults: [1, 4] }),
        times(40, timeless),
      ]),
  ],
  "20 minutes in fragments behind a box of two bytes": [
    "audio_unreadable",
    () => Buffer.concat([mp4([second], { defaults: [1, 4] }), u32(2), Buffer.from("free"), times(400, timeless)]),
  ],
  "20 minutes of ALAC, a tick a frame": [
    "audio_too_long",
    () => mp4([{ entry: alac, samples: Array.from({ length: 2500 }, () => zeros(16)), ticks: 2 }]),
  ],
  "20 minutes of samples, in one": ["audio_too_long", () => oneSample(soundEntry("sowt", 8000), zeros(20_000_000))],
  "20 minutes of MP3, in one": ["audio_too_long", () => oneSample(soundEntry(".mp3", 8000), times(17_400, slowFrame))],
  "20 minutes of MP3 in a box that decoders skip": [
    1,
    () => mp4([second], { between: box("free", times(17_400, slowFrame)) }),
  ],
  "20 minutes of MP3 in a box of another kind": [
    "audio_unreadable",
    () => mp4([second], { between: box("uuid", times(17_400, slowFrame)) }),
  ],
  "20 minutes of AAC with headers of its own": ["audio_unreadable", () => oneSample(aac(8000), times(9800, adtsFrame))],
  "20 minutes of AAC frames, in one": ["audio_unreadable", () => oneSample(aac(16_000), times(FRAMES, aacFrame))],
  "20 minutes of AAC frames, eight in each": [
    "audio_unreadable",
    () => mp4([{ entry: slow, samples: Array.from({ length: FRAMES / 8 }, () => times(8, aacFrame)) }]),
  ],
  "20 minutes of Opus, a tick a packet": ["audio_too_long", () => mp4([{ ...opusTrack, ticks: 2 }])],
  "20 minutes of Opus in fragments": ["audio_too_long", opusFragments],
  "four billion samples in sixteen bytes": [
    1,
    () => Buffer.concat([mp4([{}], { defaults: [1024, 4] }), fragment(1, { samples: HUGE }, times(46, aacFrame))]),
  ],
  "four billion packets of Opus in one chunk": [
    "audio_unreadable",
    () =>
      mp4([
        {
          entry: opus,
          samples: [zeros(100)],
          tables: (at) => [stts([HUGE, 1024]), stsz(1, HUGE), stsc(1, HUGE, 1), stco(at)],
        },
      ]),
  ],
})

const broken = family("m4a", {
  "a length and no samples": ["audio_unreadable", () => mp4([{}])],
  "a codec that is not measured": [
    "audio_unreadable",
    () => mp4([{ entry: soundEntry("samr", 8000), samples: frames(1000) }]),
  ],
  "a description in a packed box": ["audio_unreadable", () => mp4([second], { inMovie: box("cmov", noise(2000)) })],
  "no media": ["audio_unreadable", () => mp4([second]).subarray(0, -(46 * 4 + 8))],
  "cut before its description": ["audio_unreadable", () => fixture("moov-last.m4a").subarray(0, 9000)],
  "boxes without bytes": ["audio_unreadable", () => Buffer.concat([ftyp, zeros(70_000)])],
  "a box of 2^63 bytes": [
    "audio_unreadable",
    () => Buffer.concat([ftyp, u32(1), Buffer.from("free"), u32(0x8000_0000), u32(0), mp4([second])]),
  ],
  "a box of 2^64 - 1 bytes in its description": [
    "audio_unreadable",
    () => mp4([second], { inMovie: Buffer.concat([u32(1), Buffer.from("free"), u32(HUGE), u32(HUGE)]) }),
  ],
  "boxes within boxes, three million deep": ["audio_unreadable", () => Buffer.concat([ftyp, nested(3_000_000), mdat])],
  "25 MiB of boxes without payload": ["audio_unreadable", () => largest(mp4([second]), box("free"))],
  "25 MiB of descriptions of tracks": [
    "audio_unreadable",
    () => largest(Buffer.concat([ftyp, mdat]), box("moov", box("trak"))),
  ],
  "25 MiB of sizes": ["audio_unreadable", () => mp4([{ ...second, tables: sizes(6_500_000) }])],
  "25 MiB of fragments": ["audio_unreadable", () => largest(mp4([{}], { defaults: [1, 4] }), box("moof"))],
  "25 MiB of the beginnings of headers": [
    "audio_unreadable",
    () => largest(Buffer.concat([ftyp, u32(0), Buffer.from("mdat")]), Buffer.from([0xff, 0xf1])),
  ],
  "25 MiB of zeros": ["audio_unreadable", () => largest(mp4([second]).subarray(0, -60), Buffer.alloc(1))],
  "a byte short": [3, () => honest().subarray(0, -1)],
  "a byte long": [3, () => Buffer.concat([honest(), Buffer.alloc(1)])],
  fragmented: [3, () => fixture("fragmented.mp4")],
})

const sizes = (count: number) => (at: number) => [
  stts([count, 1024]),
  stsz(0, count, Buffer.alloc(count * 4, 1)),
  stsc(1, count, 1),
  stco(at),
]

export const mp4Files: ReadonlyArray<HostileFile> = [...forged, ...broken]
