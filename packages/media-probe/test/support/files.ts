import { readFileSync } from "node:fs"

/** Reads a recording from `fixtures/`; its README explains how it was made. */
export const fixture = (name: string): Buffer => readFileSync(new URL(`../fixtures/${name}`, import.meta.url))

/** Returns a copy with other bytes from an offset on. */
export const patched = (file: Buffer, at: number, ...bytes: ReadonlyArray<number>): Buffer => {
  const copy = Buffer.from(file)
  copy.set(bytes, at)
  return copy
}

const u16le = (value: number): Buffer => Buffer.from([value & 0xff, value >> 8])
const u32le = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
export const u32 = (value: number): Buffer => u32le(value).reverse()

export interface WavShape {
  readonly form?: string
  readonly codec?: number
  readonly channels?: number
  readonly rate?: number
  readonly byteRate?: number
  readonly bits?: number
  readonly blockBytes?: number
  /** The length stated in the header; the real length by default. */
  readonly dataLength?: number
  readonly data: Buffer
  /** Chunks between format and data. */
  readonly between?: Buffer
  readonly after?: Buffer
}

/** 8 kHz, mono, 16 bits unless told otherwise. */
export const wav = (shape: WavShape): Buffer => {
  const { form = "RIFF", codec = 1, channels = 1, rate = 8000, bits = 16, data } = shape
  const frameBytes = channels * Math.ceil(bits / 8)
  const format = Buffer.concat([
    u16le(codec),
    u16le(channels),
    u32le(rate),
    u32le(shape.byteRate ?? rate * frameBytes),
    u16le(shape.blockBytes ?? frameBytes),
    u16le(bits),
  ])
  const body = Buffer.concat([
    Buffer.from("WAVE"),
    riffChunk("fmt ", format),
    shape.between ?? Buffer.alloc(0),
    Buffer.from("data"),
    u32le(shape.dataLength ?? data.length),
    data,
    shape.after ?? Buffer.alloc(0),
  ])
  return Buffer.concat([Buffer.from(form), u32le(body.length), body])
}

export const riffChunk = (id: string, payload: Buffer): Buffer =>
  Buffer.concat([Buffer.from(id), u32le(payload.length), payload, Buffer.alloc(payload.length % 2)])

/** An MP4 box. */
export const box = (type: string, ...payload: ReadonlyArray<Buffer>): Buffer => {
  const body = Buffer.concat(payload)
  return Buffer.concat([u32(body.length + 8), Buffer.from(type, "latin1"), body])
}

const zeros = (bytes: number): Buffer => Buffer.alloc(bytes)

/** An audio track of 1000 ticks a second that says it lasts `statedTicks`, with the boxes of its sample table. */
export const soundTrack = (id: number, statedTicks: number, ...sampleTable: ReadonlyArray<Buffer>): Buffer =>
  track(id, "soun", statedTicks, ...sampleTable)

export const track = (
  id: number,
  handler: string,
  statedTicks: number,
  ...sampleTable: ReadonlyArray<Buffer>
): Buffer =>
  box(
    "trak",
    box("tkhd", zeros(12), u32(id), zeros(68)),
    box(
      "mdia",
      box("mdhd", zeros(12), u32(1000), u32(statedTicks), zeros(4)),
      box("hdlr", zeros(8), Buffer.from(handler), zeros(13)),
      box(
        "minf",
        box("hdlr", zeros(4), Buffer.from("dhlrurl "), zeros(13)),
        box("stbl", handler === "soun" ? aac(48_000) : Buffer.alloc(0), ...sampleTable),
      ),
    ),
  )

const aacRates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]

/** A sample description: AAC LC, mono, in frames of 1,024 samples. */
export const aac = (rate: number): Buffer => {
  const config = (2 << 11) | (aacRates.indexOf(rate) << 7) | (1 << 3)
  const specific = Buffer.from([5, 2, config >> 8, config & 0xff])
  const decoder = Buffer.concat([Buffer.from([4, 13 + specific.length, 0x40, 0x15]), zeros(11), specific])
  const stream = Buffer.concat([Buffer.from([3, 3 + decoder.length, 0, 1, 0]), decoder])
  return soundEntry("mp4a", rate, box("esds", zeros(4), stream))
}

/** A sample description of one mono entry of 16 bits. */
export const soundEntry = (format: string, rate: number, ...boxes: ReadonlyArray<Buffer>): Buffer =>
  box(
    "stsd",
    zeros(4),
    u32(1),
    box(format, zeros(7), Buffer.from([1]), zeros(8), u32(0x0001_0010), zeros(4), u32(rate * 65_536), ...boxes),
  )

/** Rows of a sample count and the ticks each sample lasts. */
export const stts = (...rows: ReadonlyArray<readonly [number, number]>): Buffer =>
  box("stts", zeros(4), u32(rows.length), ...rows.flatMap((row) => row.map(u32)))

export const ftyp = box("ftyp", Buffer.from("isom"), zeros(4), Buffer.from("isom"))
export const mdat = box("mdat", Buffer.alloc(100, 1))

/** A fragment of one run: flags as the specification numbers them, and the words that follow the sample count. */
export const fragment = (
  trackId: number,
  run: { readonly flags: number; readonly samples: number; readonly words?: ReadonlyArray<number> },
): Buffer =>
  box(
    "moof",
    box(
      "traf",
      box("tfhd", zeros(4), u32(trackId)),
      box("trun", u32(run.flags), u32(run.samples), ...(run.words ?? []).map(u32)),
    ),
  )

/** An EBML element; its size is written in eight bytes, or as told. */
export const element = (id: number, payload: Buffer | ReadonlyArray<Buffer>, size?: Buffer): Buffer => {
  const body = Buffer.isBuffer(payload) ? payload : Buffer.concat(payload)
  const idBytes = Buffer.from(
    id.toString(16).padStart(id > 0xff_ffff ? 8 : id > 0xffff ? 6 : id > 0xff ? 4 : 2, "0"),
    "hex",
  )
  return Buffer.concat([idBytes, size ?? Buffer.concat([Buffer.from([1, 0, 0, 0]), u32(body.length)]), body])
}

/** Vorbis at 48 kHz in blocks of 256 and 2,048 samples; a packet begins with 0 for a short and 2 for a long one. */
export const vorbisPrivate = ({
  isLong = [false, true],
  mappingTime = 0,
  modeTypes = 0,
}: {
  readonly isLong?: ReadonlyArray<boolean>
  /** Bits that decoders ignore: the placeholder of the mapping, and the window and transform types of the modes. */
  readonly mappingTime?: number
  readonly modeTypes?: number
} = {}): Buffer => {
  const identification = Buffer.concat([
    Buffer.from("\x01vorbis\0\0\0\0\x01", "latin1"),
    u32le(48_000),
    Buffer.alloc(12),
    Buffer.from([0xb8, 1]),
  ])
  const fields: ReadonlyArray<readonly [value: number, bits: number]> = [
    // One codebook, of two entries in one dimension, without a lookup.
    ...([
      [0, 8],
      [0x564342, 24],
      [1, 16],
      [2, 24],
      [0, 1],
      [0, 1],
      [0, 5],
      [0, 5],
      [0, 4],
    ] as const),
    // A placeholder, and one floor of type 1 without partitions.
    ...([
      [0, 6],
      [0, 16],
      [0, 6],
      [1, 16],
      [0, 5],
      [0, 2],
      [4, 4],
    ] as const),
    // One residue of one classification, and one mapping.
    ...([
      [0, 6],
      [0, 16],
      [0, 24],
      [0, 24],
      [0, 24],
      [0, 6],
      [0, 8],
      [0, 3],
      [0, 1],
    ] as const),
    ...([
      [0, 6],
      [0, 16],
      [0, 1],
      [0, 1],
      [0, 2],
      [mappingTime, 8],
      [0, 8],
      [0, 8],
    ] as const),
    // The modes, and the framing bit.
    [isLong.length - 1, 6],
    ...isLong.flatMap(
      (long) =>
        [
          [long ? 1 : 0, 1],
          [modeTypes, 32],
          [0, 8],
        ] as const,
    ),
    [1, 1],
  ]
  const bits = fields.flatMap(([value, count]) => Array.from({ length: count }, (_, bit) => (value / 2 ** bit) & 1))
  const packed = Buffer.alloc(Math.ceil(bits.length / 8))
  for (const [index, bit] of bits.entries()) packed[index >> 3] = (packed[index >> 3] ?? 0) | (bit << (index & 7))
  const comment = Buffer.from("\x03vorbis\0\0\0\0\0\0\0\0\x01", "latin1")
  return Buffer.concat([
    Buffer.from([2, identification.length, comment.length]),
    identification,
    comment,
    Buffer.from("\x05vorbis"),
    packed,
  ])
}

const unknownSize = Buffer.from([1, 255, 255, 255, 255, 255, 255, 255])

export interface WebmTrack {
  readonly number: number
  readonly type: number
  readonly codec: string
  readonly defaultNs?: number
  readonly codecPrivate?: Buffer
  /** Elements the description ends with. */
  readonly more?: Buffer
}

/** A live recording: header, tracks, and whatever clusters follow. Ticks are milliseconds. */
export const webm = (tracks: ReadonlyArray<WebmTrack>, ...rest: ReadonlyArray<Buffer>): Buffer =>
  Buffer.concat([
    element(0x1a45dfa3, element(0x4282, Buffer.from("webm"))),
    element(0x18538067, [], unknownSize),
    element(
      0x1654ae6b,
      tracks.map(({ codec, codecPrivate, defaultNs, more, number, type }) =>
        element(0xae, [
          element(0xd7, Buffer.from([number])),
          element(0x83, Buffer.from([type])),
          element(0x86, Buffer.from(codec)),
          ...(defaultNs === undefined ? [] : [element(0x23e383, u32(defaultNs))]),
          ...(codecPrivate === undefined ? [] : [element(0x63a2, codecPrivate)]),
          ...(more === undefined ? [] : [more]),
        ]),
      ),
    ),
    ...rest,
  ])

/** A block of several frames, laced in a way (1: Xiph, 2: fixed, 3: EBML), whose lacing is given. */
export const lacedBlock = (trackNumber: number, offset: number, lacing: number, body: Buffer): Buffer =>
  element(0xa3, patched(blockBody(trackNumber, offset, body), 3, lacing << 1))

export const cluster = (timestamp: number, ...blocks: ReadonlyArray<Buffer>): Buffer =>
  element(0x1f43b675, [element(0xe7, u32(timestamp)), ...blocks], unknownSize)

/** Opus, one 20 ms frame, by default. */
export const simpleBlock = (
  trackNumber: number,
  offset: number,
  frame: Buffer = Buffer.from([0xfc, 1, 2, 3]),
): Buffer => element(0xa3, blockBody(trackNumber, offset, frame))

export const blockGroup = (trackNumber: number, offset: number, duration: number, frame: Buffer): Buffer =>
  element(0xa0, [element(0xa1, blockBody(trackNumber, offset, frame)), element(0x9b, u32(duration))])

const blockBody = (trackNumber: number, offset: number, frame: Buffer): Buffer =>
  Buffer.concat([Buffer.from([0x80 | trackNumber, (offset >> 8) & 0xff, offset & 0xff, 0]), frame])
