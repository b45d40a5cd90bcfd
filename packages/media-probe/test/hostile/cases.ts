import { readFileSync } from "node:fs"
import type { AudioFormat } from "@kiln/core/domain"
import {
  aac,
  box,
  element,
  lacedBlock,
  patched,
  riffChunk,
  simpleBlock,
  soundEntry,
  vorbisPrivate,
  wav,
  webm,
} from "../support/files.ts"
import { aacFrame, mp4 as movie } from "../support/mp4.ts"
import { fullBox, joinRunSamples, joinSamples, soundTrackOf, u32 } from "./mp4Edits.ts"
import { id3 } from "./mp3Edits.ts"
import { cloned, findAll, leaf, type Node, parent, render } from "./nodes.ts"
import { parseMp4 } from "./parse.ts"

/** A file that plays longer than some of its structure suggests. The probe must refuse it, or measure at least 95 % of `seconds`. */
export interface HostileCase {
  readonly name: string
  readonly format: AudioFormat
  /** Seconds that ffmpeg plays. */
  readonly seconds: number
  readonly file: () => Buffer
}

const block = (name: string): Buffer => readFileSync(new URL(`blocks/${name}`, import.meta.url))
const times = (count: number, ...parts: ReadonlyArray<Buffer>): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => parts).flat())

// MP4

const SECONDS = 6
const FRAMES = 47
/** AAC at 8 kHz: 128 ms a frame. */
const SHORT_FRAMES = 8

const mp4 = (name: string): Node => parseMp4(block(name), name)
/** Returns the boxes in a box, as a list that can be changed. */
const boxesOf = (node: Node): Array<Node> => {
  node.children ??= []
  return node.children
}
const first = (root: Node, name: string): Node => {
  const found = findAll(root, name)[0]
  if (found === undefined) throw new Error(`expected a ${name} box`)
  return found
}

const isTable = ({ name }: Node): boolean => ["stts", "stsz", "stsc", "stco"].includes(name)

/** Returns the tables of the first frames of a track. */
const shortTables = (stbl: Node): Array<Node> => {
  const sizes = first(stbl, "stsz").body.subarray(12, 12 + 4 * SHORT_FRAMES)
  const stco = cloned(first(stbl, "stco"))
  stco.body = Buffer.concat([u32(0, 1), stco.body.subarray(8, 12)])
  stco.links = stco.links.slice(0, 1)
  return [
    fullBox("stts", u32(1, SHORT_FRAMES, 1024)),
    fullBox("stsz", u32(0, SHORT_FRAMES), sizes),
    fullBox("stsc", u32(1, 1, SHORT_FRAMES, 1)),
    stco,
  ]
}

/**
 * Puts the tables of a second in plain sight, and those of the whole file inside boxes around them: of the tables of chunks
 * ffmpeg takes the first, of those of samples the last.
 */
const hideTables = (wrap: (tables: ReadonlyArray<Node>) => Node) => (): Buffer => {
  const root = withoutEdits("mono.mp4")
  const stbl = first(root, "stbl")
  const others = boxesOf(stbl).filter((box) => !isTable(box))
  const chunks = ["stsc", "stco"].map((name) => first(stbl, name))
  const samples = ["stts", "stsz"].map((name) => first(stbl, name))
  stbl.children = [...others, wrap(chunks), ...shortTables(stbl), wrap(samples)]
  return render(root)
}

/** Reads a file without its edit lists, which skip a part of its beginning. */
const withoutEdits = (name: string): Node => {
  const root = mp4(name)
  for (const trak of findAll(root, "trak")) trak.children = boxesOf(trak).filter((box) => box.name !== "edts")
  return root
}

const insideBox =
  (name: string, head = Buffer.alloc(0)) =>
  (tables: ReadonlyArray<Node>): Node =>
    parent("box", name, tables, head)

/** Returns a file whose first track is a second of AAC, and whose second track has another tag. */
const secondTrack =
  (
    tag: string,
    media: () => Buffer,
    shape: { readonly sampleBytes: number; readonly rate: number; readonly ticks: number; readonly handler?: string },
  ) =>
  (): Buffer => {
    const root = mp4("mono.mp4")
    const stbl = first(root, "stbl")
    stbl.children = [...boxesOf(stbl).filter((box) => !isTable(box)), ...shortTables(stbl)]
    const mdat = leaf("box", "mdat", media())
    mdat.place = "second"
    const samples = mdat.body.length / shape.sampleBytes
    const track = soundTrackOf({ tag, samples, place: "second", id: 2, channels: 2, ...shape })
    boxesOf(first(root, "moov")).splice(1, 0, track)
    boxesOf(root).push(mdat)
    return render(root)
  }

const joins =
  (file: string, count: number, share = 1) =>
  (): Buffer => {
    const root = withoutEdits(file)
    let sample = 0
    const options = { count, joins: () => sample++ % Math.round(1 / share) === 0 }
    for (const stbl of findAll(root, "stbl")) joinSamples(stbl, options)
    for (const trun of findAll(root, "trun")) joinRunSamples(trun, options)
    return render(root)
  }

const f64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return bytes
}

/** A description of version 2 states 48 kHz where one of version 0 states 800 Hz; decoders ignore it in a table of version 1. */
const entryVersions = (): Buffer => {
  const mdat = leaf("box", "mdat", Buffer.alloc(2 * 800 * SECONDS, 1))
  mdat.place = "samples"
  const track = soundTrackOf({
    tag: "sowt",
    sampleBytes: 2,
    samples: 800 * SECONDS,
    place: "samples",
    id: 1,
    channels: 1,
    rate: 800,
    ticks: 1,
  })
  const stsd = first(track, "stsd")
  stsd.head = u32(0x0100_0000, 1)
  const entry = boxesOf(stsd)[0]
  if (entry !== undefined) {
    const head = Buffer.from(entry.head)
    head.writeUInt16BE(2, 8)
    entry.head = Buffer.concat([head, u32(72), f64(48_000), u32(1, 0x7f00_0000, 16, 12, 2, 1)])
  }
  return render(mp4Of(mdat, track))
}

const mp4Of = (mdat: Node, ...tracks: ReadonlyArray<Node>): Node =>
  parent("raw", "file", [
    leaf("box", "ftyp", Buffer.from("isom\0\0\0\0isommp42", "latin1")),
    mdat,
    parent("box", "moov", [fullBox("mvhd", u32(0, 0, 1000, 1000), Buffer.alloc(80)), ...tracks]),
  ])

/** Returns a short file with many edits, each of which plays at least a frame. */
const manyEdits = (): Buffer => {
  const root = withoutEdits("mono.mp4")
  const stbl = first(root, "stbl")
  stbl.children = [...boxesOf(stbl).filter((box) => !isTable(box)), ...shortTables(stbl)]
  const edits = Array.from({ length: 48 }, () => u32(10, 1024, 0x1_0000))
  boxesOf(first(root, "trak")).splice(1, 0, parent("box", "edts", [fullBox("elst", u32(edits.length), ...edits)]))
  return render(root)
}

/** Lets the boxes of a description begin where decoders do not look, so that AAC plays at the rate of the description. */
const hiddenConfiguration = (): Buffer => {
  const root = mp4("fragmented.mp4")
  const stsd = first(root, "stsd")
  stsd.head = u32(0x0100_0000, 1)
  const entry = first(stsd, "mp4a")
  const head = Buffer.from(entry.head.subarray(0, 28))
  head.writeUInt16BE(2, 8)
  head.writeUInt16BE(800, 24)
  entry.head = Buffer.concat([head, u32(72), f64(8000), u32(1, 0x7f00_0000, 16, 0, 0, 1024)])
  return render(root)
}

/** Lets all tables state that the file is short. */
const statesLittle = (): Buffer => {
  const root = withoutEdits("mono.mp4")
  first(root, "stts").body = u32(0, 1, FRAMES + 1, 2)
  for (const name of ["mvhd", "mdhd"]) {
    const header = first(root, name)
    header.body = Buffer.concat([header.body.subarray(0, 16), u32(1), header.body.subarray(20)])
  }
  return render(root)
}

/** Plays a file several times by its tables, or by an edit list. */
const playsAgain = (count: number) => (): Buffer => {
  const root = mp4("mono.mp4")
  const stbl = first(root, "stbl")
  const tables = shortTables(stbl)
  const [, stsz, , stco] = tables
  const sizes = stsz?.body.subarray(12) ?? Buffer.alloc(0)
  const link = stco?.links[0]
  if (stco === undefined || link === undefined) throw new Error("expected a position of media")
  stco.body = Buffer.concat([u32(0, count), Buffer.alloc(4 * count)])
  stco.links = Array.from({ length: count }, (_, i) => ({ ...link, at: 8 + 4 * i }))
  stbl.children = [
    ...boxesOf(stbl).filter((box) => !isTable(box)),
    fullBox("stts", u32(1, 1, 1024)),
    fullBox("stsz", u32(0, count * SHORT_FRAMES), times(count, sizes)),
    fullBox("stsc", u32(1, 1, SHORT_FRAMES, 1)),
    stco,
  ]
  return render(root)
}

/** Puts the whole movie into a box that decoders search for one when they find none. */
const hiddenMovie = (name: string) => (): Buffer => {
  const root = mp4("mono.mp4")
  const moov = first(root, "moov")
  const short = cloned(moov)
  const stbl = first(short, "stbl")
  stbl.children = [...boxesOf(stbl).filter((box) => !isTable(box)), ...shortTables(stbl)]
  moov.name = name
  boxesOf(root).push(short)
  return render(root)
}

/** Returns a second of AAC behind a track that gets its codec from a box in a description which begins like none of sound. */
const streamInEntry = (): Buffer => {
  const esds = aac(8000).subarray(52)
  const hdlr = box("hdlr", u32(0, 0), Buffer.from("soun"), Buffer.alloc(12))
  const entry = box("stsd", u32(0, 1), box("mp4s", u32(0, 1), hdlr, esds, Buffer.alloc(8)))
  const samples = (count: number) => Array.from({ length: count }, () => aacFrame)
  const shape = { ticksPerSecond: 8000, ticks: 1024 }
  return movie([
    { ...shape, handler: "subp", entry, samples: samples(FRAMES) },
    { ...shape, entry: aac(8000), samples: samples(SHORT_FRAMES) },
  ])
}

const ac3Frames = (): Array<Buffer> => {
  const all = times(12, block("tone.ac3"))
  return Array.from({ length: 188 }, (_, index) => all.subarray(256 * index, 256 * (index + 1)))
}

/** Returns 6 s of AC-3, most of it in one sample that does not begin with a frame in the usual byte order. */
const oddAc3 = (change: (frames: Buffer) => Buffer, after: number) => (): Buffer => {
  const frames = ac3Frames()
  const samples = [
    ...frames.slice(0, 40),
    change(Buffer.concat(frames.slice(40, 188 - after))),
    ...frames.slice(188 - after),
  ]
  return movie([{ entry: soundEntry("ac-3", 48_000), ticks: 1536, samples }])
}

/** Returns a second of AAC behind another file in a box for padding. */
const behindPadding = (type: string) => (): Buffer => {
  const root = mp4("mono.mp4")
  const stbl = first(root, "stbl")
  stbl.children = [...boxesOf(stbl).filter((node) => !isTable(node)), ...shortTables(stbl)]
  boxesOf(root).unshift(leaf("box", type, block("tone.nut")))
  return render(root)
}

const mp4Cases: ReadonlyArray<readonly [name: string, seconds: number, file: () => Buffer]> = [
  ...["udta", "dinf", "wave", "ilst", "sinf", "schi", "tref", "edts"].map(
    (name) => [`the tables of 6 s in ${name}, behind those of a second`, SECONDS, hideTables(insideBox(name))] as const,
  ),
  [
    "the tables of 6 s in meta, behind those of a second",
    SECONDS,
    hideTables(
      insideBox(
        "meta",
        Buffer.concat([u32(0, 33), Buffer.from("hdlr"), u32(0, 0), Buffer.from("mdir"), Buffer.alloc(13)]),
      ),
    ),
  ],
  [
    "AC-3 tagged sac3 in a second track",
    SECONDS,
    secondTrack("sac3", () => times(12, block("tone.ac3")).subarray(0, 188 * 256), {
      sampleBytes: 256,
      rate: 48_000,
      ticks: 1536,
    }),
  ],
  [
    "AC-3 tagged sac3 in a second track that is not called sound",
    SECONDS,
    secondTrack("sac3", () => times(12, block("tone.ac3")).subarray(0, 188 * 256), {
      sampleBytes: 256,
      rate: 48_000,
      ticks: 2,
      handler: "text",
    }),
  ],
  [
    "MPEG layer II tagged .mp1 in a second track that is not called sound",
    SECONDS,
    secondTrack(".mp1", () => times(12, block("tone.mp2")), {
      sampleBytes: 72,
      rate: 16_000,
      ticks: 2,
      handler: "text",
    }),
  ],
  [
    "EVRC in a second track that is not called sound",
    SECONDS,
    secondTrack("sevc", () => times(300, Buffer.from([4, ...Array.from({ length: 22 }, (_, i) => 7 * i)])), {
      sampleBytes: 23,
      rate: 8000,
      ticks: 2,
      handler: "text",
    }),
  ],
  [
    "QCELP in a second track that is not called sound",
    SECONDS,
    secondTrack("sqcp", () => times(300, Buffer.from([4, ...Array.from({ length: 34 }, (_, i) => 7 * i)])), {
      sampleBytes: 35,
      rate: 8000,
      ticks: 2,
      handler: "text",
    }),
  ],
  [
    "Nellymoser in a second track that is not called sound",
    SECONDS,
    secondTrack("nmos", () => Buffer.alloc(64 * 188, 0x35), { sampleBytes: 64, rate: 8000, ticks: 2, handler: "text" }),
  ],
  [
    "samples of 16 bits tagged in upper case in a second track that is not called sound",
    SECONDS,
    secondTrack("SOWT", () => Buffer.alloc(4 * 8000 * SECONDS, 1), {
      sampleBytes: 4,
      rate: 8000,
      ticks: 1,
      handler: "text",
    }),
  ],
  ["AAC in a description of subtitles", SECONDS, streamInEntry],
  ["AC-3 behind two other bytes", SECONDS, oddAc3((frames) => Buffer.concat([Buffer.from([1, 2]), frames]), 40)],
  [
    "AC-3 behind two other bytes, at the end",
    SECONDS,
    oddAc3((frames) => Buffer.concat([Buffer.from([1, 2]), frames]), 0),
  ],
  ["AC-3 in the other byte order", SECONDS, oddAc3((frames) => Buffer.from(frames).swap16(), 40)],
  ["NUT in a box for padding at the beginning", SECONDS, behindPadding("free")],
  ["a description of version 2 in a table of version 1", SECONDS, entryVersions],
  ...[2, 3, 8, 24].map((count) => [`${count} AAC frames in each sample`, SECONDS, joins("mono.mp4", count)] as const),
  ...[2, 3, 8].map(
    (count) => [`${count} AAC frames in each sample, in stereo`, SECONDS, joins("stereo.mp4", count)] as const,
  ),
  ...[2, 3, 8].map(
    (count) => [`${count} AAC frames in each sample of fragments`, SECONDS, joins("fragmented.mp4", count)] as const,
  ),
  ["8 AAC frames in a fifth of the samples", SECONDS, joins("mono.mp4", 8, 0.2)],
  ["8 AAC frames in a fifth of the samples of fragments", SECONDS, joins("fragmented.mp4", 8, 0.2)],
  ["tables that state two ticks a frame", SECONDS, statesLittle],
  ["a second of frames, played by 48 edits of 10 ms", SECONDS, manyEdits],
  ["AAC at the rate of its description", 50, hiddenConfiguration],
  ["a second of frames, six times in the tables", 6.144, playsAgain(6)],
  ["a movie of 6 s in a box named hoov, and one of a second", SECONDS, hiddenMovie("hoov")],
]

// WebM

const opusPacket = Buffer.from([0xfc, 1, 2, 3])
const opus = { number: 1, type: 2, codec: "A_OPUS" }
/** Returns blocks of 20 ms from a time in milliseconds on. */
const blocks = (trackNumber: number, from: number, count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => simpleBlock(trackNumber, from + 20 * i, opusPacket)))
const sized = (id: number, ...parts: ReadonlyArray<Buffer>): Buffer => element(id, parts)
const time = (milliseconds: number): Buffer => element(0xe7, u32(milliseconds))
/** A cluster of a second of one track, whose size is stated. */
const secondOf = (trackNumber: number, at = 0): Buffer => sized(0x1f43b675, time(at), blocks(trackNumber, 0, 50))
const sixOf = (trackNumber: number, from: number): Buffer =>
  Buffer.concat(Array.from({ length: SECONDS }, (_, i) => secondOf(trackNumber, from + i * 1000)))

/** Changes the number of the last track behind the end of its description, so that the blocks seem to belong to no track. */
const strayNumber =
  (...wrap: ReadonlyArray<number>) =>
  (): Buffer => {
    const stray = wrap.reduceRight((inner, id) => element(id, inner), element(0xd7, Buffer.from([9])))
    return webm([opus], secondOf(1), stray, sixOf(1, 1000))
  }

const stray = (id: number, content: Buffer) => (): Buffer => webm([opus], element(id, content), sixOf(1, 0))

const INFO = 0x1549a966
const CLUSTER = 0x1f43b675
const SEEK_HEAD = 0x114d9b74
const BLOCK_GROUP = 0xa0

/** An element that would end behind the one around it. */
const excess = element(0xec, [], Buffer.from([0x4f, 0xff]))

const webmCases: ReadonlyArray<readonly [name: string, seconds: number, file: () => Buffer]> = [
  ["a track number in the segment", 7, strayNumber()],
  ["a track number in the information", 7, strayNumber(INFO)],
  ["a track number in a cluster", 7, strayNumber(CLUSTER)],
  ["a track number in a group of blocks", 7, strayNumber(CLUSTER, BLOCK_GROUP)],
  ["a track number in the tags", 7, strayNumber(0x1254c367, 0x7373)],
  ["a codec in the segment", SECONDS, stray(0x86, Buffer.from("A_OPUS/EXPERIMENTAL"))],
  ["a codec in the information", SECONDS, stray(INFO, element(0x86, Buffer.from("V_VP8")))],
  ["a track type in the information", SECONDS, stray(INFO, element(0x83, Buffer.from([1])))],
  ["a default duration in the information", SECONDS, stray(INFO, element(0x23e383, Buffer.from([1])))],
  [
    "a track number behind the end of a description",
    7,
    () =>
      webm(
        [{ ...opus, more: element(0xe1, element(0xd7, Buffer.from([9]))) }],
        secondOf(9),
        sixOf(1, 1000),
        secondOf(1, 7000),
      ),
  ],
  [
    "6 s of an unknown track before its description",
    1,
    () => {
      const described = element(
        0x1654ae6b,
        element(0xae, [
          element(0xd7, Buffer.from([2])),
          element(0x83, Buffer.from([2])),
          element(0x86, Buffer.from("A_OPUS")),
        ]),
      )
      return Buffer.concat([webm([opus]), described, secondOf(1), sixOf(2, 0)])
    },
  ],
  [
    "6 s in frames of a track with two descriptions",
    SECONDS,
    () => webm([opus, { number: 1, type: 1, codec: "V_VP8" }], sixOf(1, 0)),
  ],
  [
    "6 s inside the last block before damage",
    6,
    () => {
      const opusFrame = Buffer.from([0xfc, 1, 2, 3])
      return webm([opus], sized(CLUSTER, time(0), simpleBlock(1, 0, Buffer.concat([opusFrame, sixOf(1, 0)])), excess))
    },
  ],
  [
    "2 s inside a table of contents",
    3,
    () => webm([opus], element(SEEK_HEAD, [excess, secondOf(1), secondOf(1, 1000)]), secondOf(1)),
  ],
  [
    "Vorbis whose ignored bits look like a mode of short blocks",
    21,
    () =>
      webm(
        [
          {
            number: 1,
            type: 2,
            codec: "A_VORBIS",
            codecPrivate: vorbisPrivate({ isLong: [true], mappingTime: 0x80, modeTypes: 1 }),
          },
        ],
        sized(CLUSTER, time(0), times(4, lacedBlock(1, 0, 2, Buffer.concat([Buffer.from([255]), Buffer.alloc(256)])))),
      ),
  ],
]

// MP3

/** MPEG 2.5 layer III at 8 kHz and 8 kbit/s: 72 ms a frame. */
const mp3Frame = Buffer.concat([Buffer.from([0xff, 0xe3, 0x18, 0xc4]), Buffer.alloc(68)])
const amr = Buffer.concat([
  Buffer.from("#!AMR\n"),
  times(300, Buffer.from([4, ...Array.from({ length: 12 }, (_, i) => 7 * i)])),
])
/** Returns the AAC frames of an MP4 with a header in front of each. */
const adts = (): Buffer => {
  const root = mp4("mono.mp4")
  const sizes = first(root, "stsz").body.subarray(12)
  const media = first(root, "mdat").body
  const frames: Array<Buffer> = []
  let at = 0
  for (let i = 0; i < FRAMES; i++) {
    const bytes = sizes.readUInt32BE(4 * i)
    const length = bytes + 7
    frames.push(
      Buffer.from([0xff, 0xf1, 0x6c, 0x40 | (length >> 11), (length >> 3) & 255, ((length & 7) << 5) | 0x1f, 0xfc]),
      media.subarray(at, at + bytes),
    )
    at += bytes
  }
  return Buffer.concat(frames)
}
const waveOf = (seconds: number): Buffer => wav({ bits: 8, blockBytes: 1, data: Buffer.alloc(8000 * seconds, 0x80) })

/** Returns samples in chunks of NSV, whose beginning readers search for anywhere. */
const nsv = (): Buffer => {
  // 8 bits, one channel, and the rate times four.
  const sound = Buffer.concat([Buffer.from([8, 1, 0x00, 0x7d]), Buffer.alloc(1000, 0x80)])
  const chunk = (head: string): Buffer =>
    Buffer.concat([Buffer.from(head, "latin1"), Buffer.from([0, 0, 0, sound.length & 255, sound.length >> 8]), sound])
  return Buffer.concat([chunk("NSVsNONEPCM \0\0\0\0\x19\0\0"), times(47, chunk("\xef\xbe"))])
}

/** Returns a tag, some MP3 frames, another format, and MP3 frames. */
const tagged =
  (other: () => Buffer, frames = 0, framesBehind = 2) =>
  (): Buffer =>
    Buffer.concat([id3(0), times(frames, mp3Frame), other(), times(framesBehind, mp3Frame)])

const manyFrames = times(200, mp3Frame)
const behindTag = (other: () => Buffer) => (): Buffer => Buffer.concat([id3(0), other(), manyFrames])
const nutStart = Buffer.from("4e4d7a561f5f04ad", "hex")
const tagOf = (content: Buffer): Buffer => Buffer.concat([id3(content.length), content])
const nutAndFrames = (): Buffer => Buffer.concat([block("tone.nut"), manyFrames])

/** 320 kbit/s at 48 kHz: 960 bytes that play 24 ms. */
const longFrame = Buffer.concat([Buffer.from([0xff, 0xfb, 0xe4, 0xc4]), Buffer.alloc(956)])
/** Writes a byte at a distance again and again, except into the headers of frames, over which the previous one reaches. */
const strided = (distance: number, byte: number): Buffer => {
  const file = Buffer.from(times(1000, longFrame))
  for (let at = distance === 33 ? 33 : 9; at < file.length; at += distance) {
    if (distance === 13 && (at % longFrame.length) + distance > longFrame.length) {
      // A frame of 32 bytes instead, beyond the header and the side information.
      file[at] = 0x3c
      at += 32 - distance
    } else if (at % longFrame.length >= 4) file[at] = byte
  }
  return file
}
const mp3Cases: ReadonlyArray<readonly [name: string, seconds: number, file: () => Buffer]> = [
  [
    "Ogg Opus between a tag and two frames, and behind them",
    12,
    () => Buffer.concat([tagged(() => block("opus.ogg"))(), block("opus.ogg")]),
  ],
  ["Ogg Opus behind a tag", 6, tagged(() => block("opus.ogg"))],
  ["NUT behind a tag", 6, tagged(() => block("tone.nut"))],
  ["NSV behind frames", 6, tagged(nsv, 10)],
  ["FLAC behind a tag", 6, tagged(() => block("silence.flac"))],
  ["MPEG-TS behind a tag", 6, tagged(() => block("tone.mpegts"))],
  ["WAV behind a tag", 6, tagged(() => waveOf(6))],
  [
    "MP4 behind a tag",
    SECONDS,
    () => {
      const root = mp4("mono.mp4")
      return render({
        ...root,
        children: [leaf("raw", "tag", id3(0)), ...boxesOf(root), leaf("raw", "frames", times(2, mp3Frame))],
      })
    },
  ],
  ["WebM behind a tag", SECONDS, tagged(() => webm([opus], sixOf(1, 0)))],
  ["AMR behind a tag", 6, tagged(() => amr)],
  ["AC-3 behind a tag", 6, tagged(() => times(12, block("tone.ac3")))],
  ["E-AC-3 behind a tag", 6, tagged(() => times(12, block("tone.eac3")))],
  ["DTS behind a tag", 1.28, tagged(() => times(12, block("tone.dts")))],
  ["ADTS behind a tag", 6, tagged(adts)],
  ["ADTS behind a tag, and ten frames behind it", 6, tagged(adts, 0, 10)],
  ["PVF behind a tag", 72, behindTag(() => Buffer.from("PVF1\n1 100 16\n"))],
  [
    "NUT behind a second tag, whose content decides",
    6,
    () => Buffer.concat([id3(0), tagOf(nutStart), manyFrames, nutAndFrames()]),
  ],
  ["GSM in the bytes of frames", 581, () => strided(33, 0xd0)],
  ["AMR in the bytes of frames", 1_000, () => strided(13, 0x04)],
]

// WAV

const u16 = (value: number): Buffer => Buffer.from([value & 255, value >> 8])
/** Returns AC-3 frames as bursts of a digital link. */
const bursts = (frames: Buffer): Buffer => {
  const all: Array<Buffer> = []
  for (let at = 0; at + AC3_BYTES <= frames.length; at += AC3_BYTES) {
    const frame = Buffer.from(frames.subarray(at, at + AC3_BYTES)).swap16()
    all.push(
      Buffer.from([0x72, 0xf8, 0x1f, 0x4e]),
      u16(1),
      u16(AC3_BYTES * 8),
      frame,
      Buffer.alloc(BURST_BYTES - AC3_BYTES - 8),
    )
  }
  return Buffer.concat(all)
}
const AC3_BYTES = 256
const BURST_BYTES = 6144
/** 16 bits in stereo at 48 kHz, the shape in which decoders search samples for frames. */
const sixteen = { rate: 48_000, channels: 2 } as const
const disguised = (data: () => Buffer) => (): Buffer => wav({ ...sixteen, data: data() })
const behindSilence = (bytes: number, data: () => Buffer): (() => Buffer) =>
  disguised(() => Buffer.concat([Buffer.alloc(bytes), data()]))
const plain = { bits: 8, blockBytes: 1 } as const
const second = Buffer.alloc(8000, 0x80)
const six = Buffer.alloc(8000 * SECONDS, 0x80)
const ds64 = (dataBytes: number): Buffer => {
  const body = Buffer.alloc(28)
  body.writeBigUInt64LE(BigInt(dataBytes), 8)
  return riffChunk("ds64", body)
}
/** Returns a 64-bit form with the sizes first, where decoders expect them. */
const rf64 = (form: string, longBytes: number, shortBytes: number, data: Buffer): Buffer => {
  const file = wav({ ...plain, form, dataLength: shortBytes, data })
  return Buffer.concat([file.subarray(0, 12), ds64(longBytes), file.subarray(12)])
}

const longTag = Buffer.concat([id3(32_768 - 26), Buffer.alloc(32_768 - 26)])
const act = (): Buffer => {
  const file = wav({ channels: 8, data: Buffer.alloc(100_000, 1) })
  file.fill(0, 44, 512)
  return patched(file, 256, 0x84)
}

const wavCases: ReadonlyArray<readonly [name: string, seconds: number, file: () => Buffer]> = [
  ["AC-3 where samples should be", 6, disguised(() => times(12, block("tone.ac3")))],
  ["E-AC-3 where samples should be", 6, disguised(() => times(12, block("tone.eac3")))],
  ["AC-3 behind some silence", 0.25, behindSilence(1000, () => times(12, block("tone.ac3")))],
  ["DTS where samples should be", 0.5, disguised(() => times(6, block("tone.dts").subarray(0, 4260)))],
  ["DTS behind some silence", 0.5, behindSilence(400, () => times(6, block("tone.dts").subarray(0, 4260)))],
  ["ADTS where samples should be", 24, disguised(() => times(4, adts()))],
  ["MPEG layer II where samples should be", 20, disguised(() => times(40, block("tone.mp2")))],
  ["MPEG layer III where samples should be", 28, disguised(() => times(400, mp3Frame))],
  [
    "bursts of AC-3 where samples of eight channels should be",
    6,
    () => wav({ rate: 192_000, channels: 8, data: bursts(times(12, block("tone.ac3"))) }),
  ],
  ["NUT where samples should be", 6, disguised(() => block("tone.nut"))],
  ["NUT behind some samples", 6, behindSilence(1000, () => block("tone.nut"))],
  [
    "NUT in a chunk before the samples",
    6,
    () => wav({ ...plain, data: second, between: riffChunk("JUNK", block("tone.nut")) }),
  ],
  ["6 s in a second data chunk", 6, () => wav({ ...plain, data: second, after: riffChunk("data", six) })],
  ["6 s that the chunk states as a second", 1, () => wav({ ...plain, dataLength: 8000, data: six })],
  ["6 s in a 64-bit form that states a second in 64 bits", 1, () => rf64("RF64", 8000, 0xffff_ffff, six)],
  ["6 s in a 64-bit form that states a second in 32 bits", 6, () => rf64("RF64", six.length, 8000, six)],
  ["6 s in a BW64 form that states a second in 32 bits", 6, () => rf64("BW64", six.length, 8000, six)],
  [
    "MP3 in the samples of a 64-bit form without its lengths",
    28,
    () => wav({ ...plain, form: "RF64", data: times(400, mp3Frame) }),
  ],
  ["ACT, which begins like a WAV", 100, act],
  [
    "NUT behind a tag that enlarges the buffer",
    6,
    () => Buffer.concat([longTag, behindSilence(3000, () => block("tone.nut"))()]),
  ],
  [
    "MPEG-TS behind a tag that enlarges the buffer",
    6,
    () => Buffer.concat([longTag, wav({ rate: 192_000, channels: 8, data: block("tone.mpegts") })]),
  ],
]

const casesOf = (
  format: AudioFormat,
  cases: ReadonlyArray<readonly [name: string, seconds: number, file: () => Buffer]>,
): ReadonlyArray<HostileCase> =>
  cases.map(([name, seconds, file]) => ({ name: `${format}: ${name}`, format, seconds, file }))

export const hostileCases: ReadonlyArray<HostileCase> = [
  ...casesOf("mp4", mp4Cases),
  ...casesOf("webm", webmCases),
  ...casesOf("mp3", mp3Cases),
  ...casesOf("wav", wavCases),
]
