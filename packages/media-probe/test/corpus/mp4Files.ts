import {
  aac,
  box,
  fixture,
  fragment,
  ftyp,
  mdat,
  patched,
  soundEntry,
  soundTrack,
  stts,
  track,
  u32,
} from "../support/files.ts"
import { adtsFrame, slowFrame } from "./frames.ts"
import { family, type HostileFile, largest, noise, times } from "./HostileFile.ts"

const HUGE = 0xffff_ffff
const none: Buffer = Buffer.alloc(0)
const zeros = (bytes: number): Buffer => Buffer.alloc(bytes)
/** Frames of 64 ms: a 20 minutes' worth of them. */
const FRAMES = 60_000
const stsz = (size: number, count: number, rows = none): Buffer => box("stsz", zeros(4), u32(size), u32(count), rows)
const stsc = (...rows: ReadonlyArray<number>): Buffer => box("stsc", zeros(4), u32(rows.length / 3), ...rows.map(u32))
const stco = (...offsets: ReadonlyArray<number>): Buffer =>
  box("stco", zeros(4), u32(offsets.length), ...offsets.map(u32))
const moov = (...boxes: ReadonlyArray<Buffer>): Buffer =>
  box("moov", box("mvhd", zeros(12), u32(1000), zeros(84)), ...boxes)
const file = (...boxes: ReadonlyArray<Buffer>): Buffer => Buffer.concat([ftyp, ...boxes, mdat])
/** Returns a track with a description in front of the one from `soundTrack`. */
const trackOf = (entry: Buffer, ...tables: ReadonlyArray<Buffer>): Buffer => track(1, "snd ", 0, entry, ...tables)
const second = (id: number): Buffer => soundTrack(id, 1000, stts([47, 21]))
const claims = stts([1, 1000])
const edits = (...rows: ReadonlyArray<readonly [ticks: number, from: number]>): Buffer =>
  box(
    "edts",
    box("elst", zeros(4), u32(rows.length), ...rows.flatMap(([ticks, from]) => [u32(ticks), u32(from), u32(0x1_0000)])),
  )
const edited = (plain: Buffer, list: Buffer): Buffer => box("trak", plain.subarray(8), list)
const trex = (ticks: number, bytes = 0): Buffer =>
  box("mvex", box("trex", zeros(4), u32(1), u32(1), u32(ticks), u32(bytes), zeros(4)))
const timeless = fragment(1, { flags: 0x200, samples: 500, words: Array.from({ length: 500 }, () => 20) })
const timescale = (plain: Buffer, value: number): Buffer => patched(plain, plain.indexOf("mdhd") + 16, ...u32(value))

/** Packets of 120 ms in four bytes each: two frames of 60 ms. */
const packets = times(10_400, Buffer.from([0x19, 1, 2, 3]))
const opusTrack = (at: number): Buffer =>
  trackOf(
    soundEntry("Opus", 48_000, box("dOps", zeros(11))),
    stts([10_400, 1]),
    stsz(4, 10_400),
    stsc(1, 10_400, 1),
    stco(at),
  )
const opusFirst = (): Buffer => {
  const head = (at: number): Buffer => Buffer.concat([ftyp, moov(opusTrack(at))])
  return Buffer.concat([head(head(0).length + 8), box("mdat", packets)])
}
const opusFragments = (): Buffer => {
  const run = (offset: number): Buffer =>
    box(
      "moof",
      box(
        "traf",
        box("tfhd", u32(0x020000), u32(1)),
        box("trun", u32(0x201), u32(1040), u32(offset), times(1040, u32(4))),
      ),
    )
  const part = Buffer.concat([run(run(0).length + 8), box("mdat", packets.subarray(0, 4160))])
  const described = moov(trackOf(soundEntry("Opus", 48_000, box("dOps", zeros(11)))), trex(1))
  return Buffer.concat([ftyp, described, times(10, part)])
}
const alac = soundEntry("alac", 8000, box("alac", zeros(4), u32(4096), zeros(16), u32(8000)))
const nested = (depth: number): Buffer => {
  const all = zeros(depth * 8)
  for (let i = 0; i < depth; i++) all.set([...u32((depth - i) * 8), ...Buffer.from("moov")], i * 8)
  return all
}
const honest = () => fixture("moov-first.m4a")

const forged = family("mp4", {
  "20 minutes of frames, said to last a tick each": [
    "audio_too_long",
    () => file(moov(soundTrack(1, 1, stts([FRAMES, 1])))),
  ],
  "20 minutes of frames, four billion ticks a second": [
    "audio_too_long",
    () => file(moov(timescale(soundTrack(1, 1, stts([FRAMES, 21])), HUGE))),
  ],
  "20 minutes of frames in the table of sizes only": [
    "audio_too_long",
    () => file(moov(soundTrack(1, 1, claims, stsz(9, FRAMES)))),
  ],
  "20 minutes of frames in the table of chunks only": [
    "audio_too_long",
    () => file(moov(soundTrack(1, 1, claims, stsc(1, 1, 1, 3, FRAMES, 1), stco(0, 0, 0)))),
  ],
  "20 minutes of sizes behind the end of their box": [
    "audio_too_long",
    () => file(moov(soundTrack(1, 1, claims, stsz(0, FRAMES, u32(9)), box("free", zeros(FRAMES * 4))))),
  ],
  "20 minutes in the second track": [
    "audio_too_long",
    () => file(moov(second(1), soundTrack(2, 1, stts([FRAMES, 1])))),
  ],
  "20 minutes in a track that is not called sound": ["audio_too_long", () => file(moov(second(1), trackOfNumber2()))],
  "20 minutes in the hundredth track": [
    "audio_unreadable",
    () => file(moov(...Array.from({ length: 99 }, (_, i) => second(i + 1)), soundTrack(100, 1, stts([FRAMES, 1])))),
  ],
  "20 minutes in a second track of the same number": [
    "audio_unreadable",
    () => file(moov(second(1), soundTrack(1, 1, stts([FRAMES, 1])))),
  ],
  "a second, played a thousand times": [
    "audio_too_long",
    () => file(moov(edited(second(1), edits(...Array.from({ length: 1250 }, () => [1000, 0] as const))))),
  ],
  "20 minutes, of which an edit plays a second": [
    "audio_too_long",
    () => file(moov(edited(soundTrack(1, 1, stts([FRAMES, 21])), edits([1000, 0])))),
  ],
  "20 minutes in fragments without times": [
    "audio_too_long",
    () => Buffer.concat([ftyp, moov(soundTrack(1, 0), trex(0)), times(120, Buffer.concat([timeless, mdat]))]),
  ],
  "20 minutes in fragments behind a second": [
    "audio_too_long",
    () => Buffer.concat([ftyp, moov(second(1), trex(1)), times(120, Buffer.concat([timeless, mdat]))]),
  ],
  "20 minutes in fragments behind a box of two bytes": [
    "audio_too_long",
    () => Buffer.concat([ftyp, moov(second(1), trex(1), u32(2), Buffer.from("free")), mdat, times(120, timeless)]),
  ],
  "20 minutes of ALAC, a tick a frame": ["audio_too_long", () => file(moov(trackOf(alac, stts([2500, 1]))))],
  "20 minutes of samples, in one": [
    "audio_too_long",
    () => file(moov(trackOf(soundEntry("sowt", 8000), claims, stsz(0, 1, u32(20_000_000))))),
  ],
  "20 minutes of MP3, in one": [
    "audio_too_long",
    () =>
      Buffer.concat([
        ftyp,
        moov(trackOf(soundEntry(".mp3", 8000), claims, stsz(0, 1, u32(1)))),
        box("mdat", times(17_400, slowFrame)),
      ]),
  ],
  "20 minutes of MP3 outside of the media": [
    "audio_too_long",
    () => file(moov(trackOf(soundEntry(".mp3", 8000), claims)), box("free", times(17_400, slowFrame))),
  ],
  "20 minutes of AAC with headers of its own": [
    "audio_too_long",
    () => Buffer.concat([ftyp, moov(soundTrack(1, 1, claims)), box("mdat", times(9800, adtsFrame))]),
  ],
  "20 minutes of AAC at its highest rate, in one": [
    "audio_too_long",
    () => file(moov(trackOf(aac(8000), claims, stsz(0, 1, u32(7_600_000))))),
  ],
  "20 minutes of Opus, a tick a packet": ["audio_too_long", opusFirst],
  "20 minutes of Opus, described at the end": [
    "audio_too_long",
    () => Buffer.concat([ftyp, box("mdat", packets), moov(opusTrack(ftyp.length + 8))]),
  ],
  "20 minutes of Opus in fragments": ["audio_too_long", opusFragments],
  "Opus whose table is cut": [
    "audio_unreadable",
    () => file(moov(trackOf(soundEntry("Opus", 48_000), claims, stsz(0, 5000, u32(4))))),
  ],
  "four billion samples in sixteen bytes": [
    "audio_too_long",
    () => Buffer.concat([ftyp, moov(soundTrack(1, 0), trex(HUGE)), fragment(1, { flags: 0, samples: HUGE }), mdat]),
  ],
  "four billion packets of Opus in one chunk": [
    "audio_too_long",
    () => file(moov(trackOf(soundEntry("Opus", 48_000), stsz(1, HUGE), stsc(1, HUGE, 1), stco(1)))),
  ],
})

const trackOfNumber2 = (): Buffer => track(2, "data", 0, aac(16_000), stts([FRAMES, 1]))

const broken = family("m4a", {
  "a length and no samples": ["audio_unreadable", () => file(moov(soundTrack(1, 1000)))],
  "a codec that is not measured": [
    "audio_unreadable",
    () => file(moov(trackOf(soundEntry("samr", 8000), stts([1000, 20])))),
  ],
  "a description in a packed box": ["audio_unreadable", () => file(moov(second(1), box("cmov", noise(2000))))],
  "no media": ["audio_unreadable", () => Buffer.concat([ftyp, moov(second(1))])],
  "cut before its description": ["audio_unreadable", () => fixture("moov-last.m4a").subarray(0, 9000)],
  "boxes without bytes": ["audio_unreadable", () => Buffer.concat([ftyp, zeros(70_000)])],
  "a box of 2^63 bytes": [
    "audio_unreadable",
    () => Buffer.concat([ftyp, u32(1), Buffer.from("free"), u32(0x8000_0000), u32(0), moov(second(1)), mdat]),
  ],
  "a box of 2^64 - 1 bytes in its description": [
    "audio_unreadable",
    () => file(box("moov", u32(1), Buffer.from("free"), u32(HUGE), u32(HUGE), second(1))),
  ],
  "boxes within boxes, three million deep": ["audio_unreadable", () => Buffer.concat([ftyp, nested(3_000_000), mdat])],
  "25 MiB of boxes without payload": ["audio_unreadable", () => largest(Buffer.concat([ftyp, mdat]), box("free"))],
  "25 MiB of descriptions of tracks": [
    "audio_unreadable",
    () => largest(Buffer.concat([ftyp, mdat]), moov(box("trak"))),
  ],
  "25 MiB of sizes": [
    "audio_too_long",
    () => largest(Buffer.concat([ftyp, mdat, moovOfSizes(26_000_000)]), Buffer.alloc(1, 3)),
  ],
  "25 MiB of places of Opus": ["audio_too_long", () => Buffer.concat([ftyp, mdat, opusOfSizes(6_500_000)])],
  "25 MiB of the beginnings of headers": [
    "audio_unreadable",
    () => largest(Buffer.concat([ftyp, u32(0), Buffer.from("mdat")]), Buffer.from([0xff, 0xf1])),
  ],
  "25 MiB of zeros": [
    1,
    () => largest(Buffer.concat([ftyp, box("moov", second(1)), mdat]).subarray(0, -60), Buffer.alloc(1)),
  ],
  "a byte short": [3, () => honest().subarray(0, -1)],
  "a byte long": [3, () => Buffer.concat([honest(), Buffer.alloc(1)])],
  fragmented: [3, () => fixture("fragmented.mp4")],
})

const moovOfSizes = (bytes: number): Buffer => {
  const head = moov(soundTrack(1, 0, stsz(0, bytes / 4)))
  const sized = (type: string, from: Buffer): void => {
    const at = from.indexOf(type) - 4
    from.writeUInt32BE(from.readUInt32BE(at) + bytes, at)
  }
  for (const type of ["moov", "trak", "mdia", "minf", "stbl", "stsz"]) sized(type, head)
  return head
}

const opusOfSizes = (count: number): Buffer =>
  moov(trackOf(soundEntry("Opus", 48_000), stsz(0, count, Buffer.alloc(count * 4, 1)), stsc(1, count, 1), stco(1)))

export const mp4Files: ReadonlyArray<HostileFile> = [...forged, ...broken]
