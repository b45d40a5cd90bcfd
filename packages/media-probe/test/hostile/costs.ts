import type { AudioFormat } from "@kiln/core/domain"
import { largest, LARGEST, noise, times } from "../corpus/HostileFile.ts"
import {
  box,
  cluster,
  element,
  fragment,
  ftyp,
  lacedBlock,
  mdat,
  riffChunk,
  simpleBlock,
  soundEntry,
  soundTrack,
  stts,
  track,
  u32,
  vorbisPrivate,
  wav,
  webm,
} from "../support/files.ts"
import { probe, type Probed, workedMs } from "./judge.ts"
import { id3 } from "./mp3Edits.ts"

/** A file of 25 MiB in which every few bytes ask for work. */
export interface CostFile {
  readonly name: string
  readonly format: AudioFormat
  readonly file: () => Buffer
}

export interface Cost extends Probed {
  readonly name: string
  /** Longest CPU time between two turns of the event loop, in milliseconds. */
  readonly gapMs: number
}

// WAV

const samples = { rate: 48_000, channels: 2 } as const
/** Returns a file whose samples are repetitions of some bytes. */
const filled =
  (...bytes: ReadonlyArray<number>) =>
  (): Buffer =>
    wav({ ...samples, data: Buffer.alloc(LARGEST - 44, Buffer.from(bytes)) })
const afterSecond = (part: Buffer) => (): Buffer => largest(wav({ ...samples, data: Buffer.alloc(192_000) }), part)
const beforeData = (part: Buffer) => (): Buffer =>
  wav({ ...samples, between: Buffer.alloc(LARGEST - 200_000, part), data: Buffer.alloc(192_000) })

const wavFiles: Readonly<Record<string, () => Buffer>> = {
  "0b 77": filled(0x0b, 0x77),
  "0b 77 of frames of 128 bytes": filled(
    ...Buffer.concat([Buffer.from([0x0b, 0x77, 0, 0, 0, 0x40, 0x43]), Buffer.alloc(121)]),
  ),
  "the smallest E-AC-3 frames": filled(0x0b, 0x77, 0, 0, 0, 0x80),
  "E-AC-3 frames that overlap": filled(0x0b, 0x77, 7, 0xff, 0, 0x80, 0x0b, 0x77),
  "0b 77, swapped": filled(0x77, 0x0b),
  "sync words of DTS": filled(0x7f, 0xfe, 0x80, 0x01),
  "beginnings of sync words of DTS": filled(0x7f, 0xfe, 0x80),
  "sync words of S/PDIF": filled(0x72, 0xf8, 0x1f, 0x4e),
  "beginnings of sync words of S/PDIF": filled(0x72, 0xf8),
  "0xff": filled(0xff),
  "headers of MPEG": filled(0xff, 0xe3),
  "headers of ADTS": filled(0xff, 0xf1),
  "the smallest ADTS frames": filled(0xff, 0xf1, 0x6c, 0x40, 0, 0xff, 0xfc),
  "the smallest MPEG frames": filled(0xff, 0xf3, 0x14, 0xc4, ...Buffer.alloc(20)),
  noise: () => wav({ ...samples, data: noise(LARGEST - 44) }),
  "empty chunks after the data": afterSecond(riffChunk("JUNK", Buffer.alloc(0))),
  "empty chunks before the data": beforeData(riffChunk("JUNK", Buffer.alloc(0))),
  "chunks of a byte": beforeData(riffChunk("JUNK", Buffer.alloc(1))),
  "lists of nothing": beforeData(riffChunk("LIST", Buffer.from("INFO"))),
  formats: beforeData(riffChunk("fmt ", Buffer.alloc(16, 1))),
  "data chunks of two bytes": afterSecond(riffChunk("data", Buffer.alloc(2))),
  "empty data chunks": afterSecond(riffChunk("data", Buffer.alloc(0))),
  "sizes in 64 bits": beforeData(riffChunk("ds64", Buffer.alloc(28))),
}

// MP3

/** MPEG 2 layer III, 24 kHz, 8 kbit/s. */
const smallFrame = Buffer.concat([Buffer.from([0xff, 0xf3, 0x14, 0xc4]), Buffer.alloc(20)])
const behindTag =
  (...bytes: ReadonlyArray<number>) =>
  (): Buffer =>
    largest(id3(0), Buffer.from(bytes))
const behindFrames = (part: Buffer) => (): Buffer => largest(Buffer.concat([id3(0), times(50, smallFrame)]), part)
const tsPacket = Buffer.concat([Buffer.from([0x47, 0x40, 0, 0x10]), Buffer.alloc(184)])

const mp3Files: Readonly<Record<string, () => Buffer>> = {
  "the smallest frames": () => largest(id3(0), smallFrame),
  "the smallest frames, a byte apart": () => largest(id3(0), Buffer.concat([smallFrame, Buffer.alloc(1)])),
  "frames of two kinds in turn": () =>
    largest(id3(0), Buffer.concat([smallFrame, Buffer.from([0xff, 0xf3, 0x10, 0xc4]), Buffer.alloc(22)])),
  "frames of layer I": behindTag(0xff, 0xff, 0x14, 0, ...Buffer.alloc(28)),
  "0xff": behindTag(0xff),
  "0xff behind frames": behindFrames(Buffer.from([0xff])),
  headers: behindTag(0xff, 0xe3),
  "headers of frames": behindTag(0xff, 0xf3, 0x14, 0xc4),
  "headers behind frames": behindFrames(Buffer.from([0xff, 0xfb, 0x90, 0x64, 0])),
  "headers of ADTS behind frames": behindFrames(Buffer.from([0xff, 0xf1, 0x6c, 0x40, 0, 0xff, 0xfc])),
  "tags of ten bytes": () => largest(id3(0), id3(0)),
  "tags of eleven bytes": () => largest(id3(1), Buffer.concat([Buffer.alloc(1), id3(1)])),
  "tags behind frames": behindFrames(id3(0)),
  "tags and frames in turn": () => largest(id3(0), Buffer.concat([smallFrame, id3(0)])),
  "pages of Ogg": behindTag(...Buffer.from("OggS\0\0"), ...Buffer.alloc(20), 0),
  "APE tags": behindFrames(Buffer.from("APETAGEX")),
  "0b 77": behindTag(0x0b, 0x77),
  "packets of MPEG-TS": () => largest(id3(0), tsPacket),
  "0x47": behindTag(0x47),
  "start codes of MPEG": behindTag(0, 0, 1, 0xba),
  zeros: behindTag(0),
  noise: () => Buffer.concat([id3(0), noise(LARGEST - 10)]),
}

// MP4

const zeros = (bytes: number): Buffer => Buffer.alloc(bytes)
const moov = (...boxes: ReadonlyArray<Buffer>): Buffer =>
  box("moov", box("mvhd", zeros(12), u32(1000), zeros(84)), ...boxes)
const second = soundTrack(1, 1000, stts([47, 21]))
const valid = Buffer.concat([ftyp, moov(second), mdat])
const ROWS_BYTES = LARGEST - 2000
/** Returns a file with a table of rows that fills it. */
const table = (name: string, head: ReadonlyArray<number>, row: ReadonlyArray<number>, entry?: Buffer) => (): Buffer => {
  const rows = Buffer.alloc(ROWS_BYTES, Buffer.concat(row.map(u32)))
  const count = Math.floor(ROWS_BYTES / (4 * row.length))
  const tables = [box(name, zeros(4), ...head.map(u32), u32(count), rows)]
  const described = entry === undefined ? soundTrack(1, 1000, ...tables) : track(1, "snd ", 0, entry, ...tables)
  return Buffer.concat([ftyp, moov(described), mdat])
}
const opusEntry = soundEntry("Opus", 48_000, box("dOps", zeros(11)))
const inMovie = (part: Buffer) => (): Buffer =>
  Buffer.concat([
    ftyp,
    mdat,
    box("moov", second, Buffer.alloc(LARGEST - 1000 - ((LARGEST - 1000) % part.length), part)),
  ])
const inBox =
  (...path: ReadonlyArray<string>) =>
  (part: Buffer) =>
  (): Buffer => {
    const bytes = LARGEST - 2000
    const content = Buffer.alloc(bytes - (bytes % part.length), part)
    return Buffer.concat([ftyp, mdat, path.reduceRight<Buffer>((inner, name) => box(name, inner), content)])
  }
const runs = (flags: number, words: ReadonlyArray<number>, entry?: Buffer) => (): Buffer => {
  const rowBytes = 4 * words.length
  const count = Math.floor((LARGEST - 4000) / rowBytes)
  const rows = Buffer.alloc(count * rowBytes, Buffer.concat(words.map(u32)))
  const moof = box("moof", box("traf", box("tfhd", zeros(4), u32(1)), box("trun", u32(flags), u32(count), rows)))
  const described = entry === undefined ? second : track(1, "soun", 0, entry)
  return Buffer.concat([ftyp, moov(described, trex), moof, mdat])
}
const trex = box("mvex", box("trex", zeros(4), u32(1), u32(1), u32(20), u32(4), zeros(4)))
const moofs = (flags: number, entry?: Buffer) => (): Buffer =>
  largest(
    Buffer.concat([ftyp, moov(entry === undefined ? soundTrack(1, 0) : track(1, "soun", 0, entry), trex), mdat]),
    fragment(1, { flags, samples: 1 }),
  )
const nested = (name: string) => (): Buffer => {
  const depth = Math.floor((LARGEST - 1000) / 8)
  const all = zeros(depth * 8)
  for (let i = 0; i < depth; i++) {
    all.writeUInt32BE((depth - i) * 8, i * 8)
    all.write(name, i * 8 + 4, "latin1")
  }
  return Buffer.concat([valid, all])
}
/** Opus packets whose positions descend, so that they must be sorted. */
const descending = (): Buffer => {
  const count = 700_000
  const positions = Buffer.alloc(4 * count)
  for (let i = 0; i < count; i++) positions.writeUInt32BE(LARGEST - 1 - 8 * i, 4 * i)
  const tables = [
    stts([count, 960]),
    box("stsz", zeros(4), u32(4), u32(count)),
    box("stsc", zeros(4), u32(1), u32(1), u32(1), u32(1)),
    box("stco", zeros(4), u32(count), positions),
  ]
  return largest(
    Buffer.concat([ftyp, moov(track(1, "soun", 0, opusEntry, ...tables)), u32(0), Buffer.from("mdat")]),
    Buffer.from([0x19, 1, 2, 3]),
  )
}

const mp4Files: Readonly<Record<string, () => Buffer>> = {
  "empty boxes": () => largest(valid, box("free")),
  "empty tracks": inMovie(box("trak")),
  "empty boxes in the movie": inMovie(box("udta")),
  "boxes of nine bytes": inMovie(box("free", zeros(1))),
  "boxes with 64-bit sizes": inMovie(Buffer.concat([u32(1), Buffer.from("free"), u32(0), u32(16)])),
  movies: () => largest(valid, moov()),
  "empty movies": () => largest(valid, box("moov", box("trak"))),
  "media of no bytes": () => largest(valid, box("mdat")),
  "tracks with identifiers": inMovie(box("trak", box("tkhd", zeros(12), u32(2), zeros(68)))),
  "sample descriptions": inBox("moov", "trak", "mdia", "minf", "stbl")(soundEntry("mp4a", 8000)),
  "entries of a sample description": inBox("moov", "trak", "mdia", "minf", "stbl", "stsd")(box("mp4a", zeros(28))),
  "boxes in a sample entry": inBox("moov", "trak", "mdia", "minf", "stbl", "stsd", "mp4a")(box("esds")),
  "boxes in user data": inBox("moov", "udta")(box("name")),
  "names in user data": inBox("moov", "udta", "meta", "ilst")(box("\xa9nam", box("data", zeros(8)))),
  "rows of stsz": table("stsz", [0], [7]),
  "rows of stsz for Opus": table("stsz", [0], [4], opusEntry),
  "rows of stz2": table("stz2", [8], [0x01010101]),
  "rows of stts": table("stts", [], [1, 1]),
  "rows of ctts": table("ctts", [], [1, 1]),
  "rows of stsc": table("stsc", [], [1, 1, 1]),
  "rows of stsc for Opus": table("stsc", [], [1, 1, 1], opusEntry),
  "rows of stco": table("stco", [], [100]),
  "rows of stco for Opus": table("stco", [], [100], opusEntry),
  "rows of co64": table("co64", [], [0, 100]),
  "rows of elst": table("elst", [], [1, 0, 0x1_0000]),
  "rows of trun": runs(0x200, [4]),
  "rows of trun with times": runs(0x300, [20, 4]),
  "rows of trun for Opus": runs(0x200, [4], opusEntry),
  "empty fragments": () => largest(valid, box("moof")),
  fragments: moofs(0),
  "fragments of Opus": moofs(0, opusEntry),
  "fragments that each claim four billion samples": () =>
    largest(Buffer.concat([ftyp, moov(soundTrack(1, 0), trex), mdat]), fragment(1, { flags: 0, samples: 0xffff_ffff })),
  "fragments of Opus that each claim 4,096 samples": () =>
    largest(
      Buffer.concat([ftyp, moov(track(1, "soun", 0, opusEntry), trex), mdat]),
      fragment(1, { flags: 0, samples: 4096 }),
    ),
  "fragments of tracks in one": () =>
    largest(
      Buffer.concat([ftyp, moov(second, trex), mdat, u32(0), Buffer.from("moof")]),
      box("traf", box("tfhd", zeros(4), u32(1)), box("trun", u32(0), u32(1))),
    ),
  "nested movies": nested("moov"),
  "nested user data": nested("udta"),
  "nested boxes in a track": nested("trak"),
  "0b 77 in the media": () =>
    largest(Buffer.concat([ftyp, moov(second), u32(0), Buffer.from("mdat")]), Buffer.from([0x0b, 0x77])),
  "headers of ADTS in the media": () =>
    largest(
      Buffer.concat([ftyp, moov(second), u32(0), Buffer.from("mdat")]),
      Buffer.from([0xff, 0xf1, 0x6c, 0x40, 0, 0xff, 0xfc]),
    ),
  "0xff in the media": () =>
    largest(Buffer.concat([ftyp, moov(second), u32(0), Buffer.from("mdat")]), Buffer.from([0xff])),
  "Opus packets in descending order": descending,
}

// WebM

const opus = { number: 1, type: 2, codec: "A_OPUS" }
const vorbis = { number: 1, type: 2, codec: "A_VORBIS", codecPrivate: vorbisPrivate() }
const live =
  (part: Buffer, described = opus) =>
  (): Buffer =>
    largest(webm([described], cluster(0, simpleBlock(1, 0))), part)
const short = (...bytes: ReadonlyArray<number>) => live(Buffer.from(bytes))
const laced = (lacing: number, body: Buffer) => live(lacedBlock(1, 0, lacing, body))
const bytes = (count: number, byte: number): Buffer => Buffer.alloc(count, byte)

const webmFiles: Readonly<Record<string, () => Buffer>> = {
  "empty Void elements": short(0xec, 0x80),
  "Void elements of a byte": short(0xec, 0x81, 0),
  "unknown elements of two bytes": short(0x80, 0x80),
  "elements in eight-byte sizes": live(element(0xec, [])),
  checksums: short(0xbf, 0x80),
  "the smallest blocks": short(0xa3, 0x84, 0x81, 0, 0, 0x80),
  "blocks of a byte": short(0xa3, 0x85, 0x81, 0, 0, 0x80, 0xfc),
  "blocks of another track": short(0xa3, 0x85, 0x82, 0, 0, 0x80, 0xfc),
  "groups of a block": short(0xa0, 0x87, 0xa1, 0x85, 0x81, 0, 0, 0, 0xfc),
  "empty groups": short(0xa0, 0x80),
  "nested groups": short(0xa0, 0xff),
  "durations of blocks": short(0x9b, 0x81, 1),
  "empty clusters": short(0x1f, 0x43, 0xb6, 0x75, 0x80),
  "clusters of unknown size": short(0x1f, 0x43, 0xb6, 0x75, 0xff),
  timestamps: short(0xe7, 0x81, 1),
  segments: short(0x18, 0x53, 0x80, 0x67, 0xff),
  headers: short(0x1a, 0x45, 0xdf, 0xa3, 0x80),
  "beginnings of clusters": short(0, 0x1f, 0x43, 0xb6),
  "the first byte of clusters": short(0, 0x1f, 0x1f, 0x1f),
  "descriptions of tracks": short(0xae, 0x80),
  "track numbers": short(0xd7, 0x81, 1),
  "descriptions of tracks with numbers": short(0xae, 0x83, 0xd7, 0x81, 1),
  "large private data": live(element(0xae, [element(0xd7, Buffer.from([1])), element(0x63a2, bytes(65_000, 2))])),
  "private data of Vorbis": live(element(0xae, [element(0xd7, Buffer.from([2])), element(0x63a2, vorbisPrivate())])),
  "blocks of Vorbis": live(Buffer.from([0xa3, 0x85, 0x81, 0, 0, 0x80, 2]), vorbis),
  "Xiph laces of empty frames": laced(1, Buffer.concat([Buffer.from([255]), bytes(255, 0)])),
  "Xiph laces of frames of a byte": laced(1, Buffer.concat([Buffer.from([255]), bytes(255, 1), bytes(256, 0xfc)])),
  "laces of one size": laced(2, Buffer.concat([Buffer.from([255]), bytes(256, 0xfc)])),
  "laces of no bytes": laced(2, Buffer.from([255])),
  "EBML laces of frames of a byte": laced(
    3,
    Buffer.concat([Buffer.from([255, 0x81]), bytes(254, 0xbf), bytes(256, 0xfc)]),
  ),
  "EBML laces with long numbers": laced(
    3,
    Buffer.concat([
      Buffer.from([255, 0x81]),
      times(254, Buffer.from([1, 127, 255, 255, 255, 255, 255, 255])),
      bytes(256, 0xfc),
    ]),
  ),
  "laces that are cut": laced(1, bytes(256, 255)),
  positions: short(0x4d, 0xbb, 0x80),
  tags: short(0x67, 0xc8, 0x80),
  "0b 77": short(0x0b, 0x77),
  zeros: short(0),
  "0xff": short(0xff),
  noise: () => Buffer.concat([webm([opus], cluster(0, simpleBlock(1, 0))), noise(LARGEST - 1000)]),
}

const filesOf = (format: AudioFormat, files: Readonly<Record<string, () => Buffer>>): ReadonlyArray<CostFile> =>
  Object.entries(files).map(([name, file]) => ({ name: `${format}: 25 MiB of ${name}`, format, file }))

export const costFiles: ReadonlyArray<CostFile> = [
  ...filesOf("wav", wavFiles),
  ...filesOf("mp3", mp3Files),
  ...filesOf("mp4", mp4Files),
  ...filesOf("webm", webmFiles),
]

const sampled = new Set([
  "wav: 25 MiB of 0b 77",
  "wav: 25 MiB of data chunks of two bytes",
  "mp3: 25 MiB of tags of ten bytes",
  "mp4: 25 MiB of empty boxes",
  "mp4: 25 MiB of empty tracks",
  "mp4: 25 MiB of rows of stsz for Opus",
  "mp4: 25 MiB of fragments",
  "webm: 25 MiB of empty Void elements",
  "webm: 25 MiB of laces of no bytes",
])

/** Files for the system tier: the ones that once took longest, and a part of the others. */
export const sampledCostFiles = costFiles.filter(({ name }, i) => i % 6 === 0 || sampled.has(name))

/** Probes a file of 25 MiB, and measures CPU time. Probe another file first, or compilation is measured too. */
export const measureCost = async ({ file, format, name }: CostFile): Promise<Cost> => {
  const content = file()
  let gapMs = 0
  let last = workedMs()
  const look = (): void => {
    const now = workedMs()
    gapMs = Math.max(gapMs, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  const probed = await probe(format, content)
  clearInterval(timer)
  look()
  return { ...probed, name, gapMs }
}
