import { crc32, deflateSync } from "node:zlib"
import { riffChunk } from "../support/files.ts"
import { randomFrom } from "./signals.ts"

const u32be = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

const u32le = (value: number): Buffer => Buffer.from(u32be(value)).reverse()

/** A PNG of random pixels, which do not compress: about 3 × size² bytes. */
export const noisePng = (size: number): Buffer => {
  const random = randomFrom(size)
  const rows = Buffer.alloc(size * (1 + size * 3))
  for (let at = 0; at < rows.length; at++)
    rows[at] = at % (1 + size * 3) === 0 ? 0 : Math.floor((random() + 1) * 128) & 255
  const chunk = (type: string, payload: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), payload])
    return Buffer.concat([u32be(payload.length), body, u32be(crc32(body))])
  }
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", Buffer.concat([u32be(size), u32be(size), Buffer.from([8, 2, 0, 0, 0])])),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

/** Random bytes, which may contain anything that looks like a frame. */
export const noise = (bytes: number, seed = 1): Buffer<ArrayBuffer> => {
  const random = randomFrom(seed)
  const made = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at++) made[at] = Math.floor((random() + 1) * 128) & 255
  return made
}

const synchsafe = (value: number): Buffer =>
  Buffer.from([(value >> 21) & 127, (value >> 14) & 127, (value >> 7) & 127, value & 127])

/** An ID3v1 tag. */
export const id3v1 = (): Buffer => {
  const tag = Buffer.alloc(128)
  tag.write("TAGA short recording", "latin1")
  tag.write("kiln", 33, "latin1")
  tag.write("2024", 93, "latin1")
  tag[127] = 12
  return tag
}

/** A Lyrics3v2 tag, which precedes ID3v1. */
export const lyrics3 = (): Buffer => {
  const body = `LYRICSBEGININD00002000LYR00028[00:01]Hold the line please`
  return Buffer.from(`${body}${String(body.length).padStart(6, "0")}LYRICS200`, "latin1")
}

export interface Id3Shape {
  readonly version?: 2 | 3 | 4
  readonly picture?: Buffer
  readonly mime?: string
  /** Number of zero bytes behind the frames. */
  readonly padding?: number
  readonly hasFooter?: boolean
  /** Applies the unsynchronization scheme to the tag. */
  readonly isUnsynchronized?: boolean
  readonly hasExtendedHeader?: boolean
  /** Bytes added to the stated size of the tag. */
  readonly sizeError?: number
  /** Writes the size of the tag as a plain integer, which decoders reject or read as another size. */
  readonly hasPlainSize?: boolean
  /** Writes frame sizes of version 2.4 as plain integers, as some encoders do. */
  readonly hasPlainFrameSizes?: boolean
}

/** An ID3v2 tag with a title and an optional picture. */
export const id3v2 = (shape: Id3Shape = {}): Buffer => {
  const { hasExtendedHeader = false, hasFooter = false, padding = 0, sizeError = 0, version = 3 } = shape
  const frame = (id: string, short: string, payload: Buffer): Buffer => {
    if (version === 2) return Buffer.concat([Buffer.from(short), u32be(payload.length).subarray(1), payload])
    const size = version === 4 && shape.hasPlainFrameSizes !== true ? synchsafe(payload.length) : u32be(payload.length)
    return Buffer.concat([Buffer.from(id), size, Buffer.alloc(2), payload])
  }
  const mime = shape.mime ?? "image/png"
  const pictureHead = version === 2 ? `\0${mime === "image/png" ? "PNG" : "JPG"}\x03\0` : `\0${mime}\0\x03\0`
  let body: Buffer = Buffer.concat([
    hasExtendedHeader
      ? version === 4
        ? Buffer.from([0, 0, 0, 6, 1, 0])
        : Buffer.from([0, 0, 0, 6, 0, 0, 0, 0, 0, 0])
      : Buffer.alloc(0),
    frame("TIT2", "TT2", Buffer.from("\0A short recording", "latin1")),
    frame("TPE1", "TP1", Buffer.from("\x01\xff\xfek\0i\0l\0n\0", "latin1")),
    ...(shape.picture === undefined
      ? []
      : [frame("APIC", "PIC", Buffer.concat([Buffer.from(pictureHead, "latin1"), shape.picture]))]),
    Buffer.alloc(padding),
  ])
  if (shape.isUnsynchronized === true) body = unsynchronized(body)
  const flags = (shape.isUnsynchronized === true ? 0x80 : 0) | (hasExtendedHeader ? 0x40 : 0) | (hasFooter ? 0x10 : 0)
  const rest = Buffer.concat([
    Buffer.from([version, 0, flags]),
    (shape.hasPlainSize === true ? u32be : synchsafe)(body.length + sizeError),
  ])
  return Buffer.concat([
    Buffer.from("ID3"),
    rest,
    body,
    hasFooter ? Buffer.concat([Buffer.from("3DI"), rest]) : Buffer.alloc(0),
  ])
}

/** Inserts a zero byte wherever a decoder could find a frame. */
const unsynchronized = (body: Buffer): Buffer => {
  const bytes: Array<number> = []
  for (const [at, byte] of body.entries()) {
    bytes.push(byte)
    const next = body[at + 1] ?? 0
    if (byte === 0xff && (next >= 0xe0 || next === 0)) bytes.push(0)
  }
  return Buffer.from(bytes)
}

/** An APEv2 tag with a header and footer, or only a footer. */
export const apev2 = (hasHeader: boolean, cover: Buffer = Buffer.alloc(0)): Buffer => {
  const item = (key: string, value: Buffer, flags: number): Buffer =>
    Buffer.concat([u32le(value.length), u32le(flags), Buffer.from(`${key}\0`), value])
  const items = Buffer.concat([
    item("Title", Buffer.from("A short recording"), 0),
    item("Artist", Buffer.from("kiln"), 0),
    ...(cover.length === 0 ? [] : [item("Cover Art (Front)", Buffer.concat([Buffer.from("cover.png\0"), cover]), 2)]),
  ])
  const count = cover.length === 0 ? 2 : 3
  const edge = (flags: number): Buffer =>
    Buffer.concat([
      Buffer.from("APETAGEX"),
      u32le(2000),
      u32le(items.length + 32),
      u32le(count),
      u32le(flags),
      Buffer.alloc(8),
    ])
  const bit = hasHeader ? 0x8000_0000 : 0
  return hasHeader ? Buffer.concat([edge(0xa000_0000), items, edge(bit)]) : Buffer.concat([items, edge(bit)])
}

export const before =
  (addition: Buffer) =>
  (file: Buffer): Buffer =>
    Buffer.concat([addition, file])
export const behind =
  (addition: Buffer) =>
  (file: Buffer): Buffer =>
    Buffer.concat([file, addition])

/** Overwrites the side information and the tag of the first frame with zeros, as encoders do that cannot seek. */
export const zeroXing = (file: Buffer): Buffer => {
  const copy = Buffer.from(file)
  for (const name of ["Xing", "Info"]) {
    const at = copy.indexOf(name)
    if (at > 0 && at < 4096) copy.fill(0, at, at + 140)
  }
  return copy
}

/** Sets the stated number of frames in the Xing tag to zero. */
export const zeroXingFrames = (file: Buffer): Buffer => {
  const copy = Buffer.from(file)
  for (const name of ["Xing", "Info"]) {
    const at = copy.indexOf(name)
    if (at > 0 && at < 4096) copy.fill(0, at + 8, at + 12)
  }
  return copy
}

interface WavParts {
  readonly form: string
  readonly chunks: ReadonlyArray<{ readonly id: string; readonly payload: Buffer }>
}

/** Splits a well-formed WAV file into its chunks. */
const wavParts = (file: Buffer): WavParts => {
  const chunks: Array<{ id: string; payload: Buffer }> = []
  for (let at = 12; at + 8 <= file.length;) {
    const size = file.readUInt32LE(at + 4)
    chunks.push({ id: file.toString("latin1", at, at + 4), payload: file.subarray(at + 8, at + 8 + size) })
    at += 8 + size + (size % 2)
  }
  return { form: file.toString("latin1", 0, 4), chunks }
}

const wavOf = (form: string, chunks: ReadonlyArray<Buffer>): Buffer => {
  const body = Buffer.concat([Buffer.from("WAVE"), ...chunks])
  return Buffer.concat([Buffer.from(form), u32le(form === "RIFF" ? body.length : 0xffff_ffff), body])
}

/** Inserts chunks before the format, before the audio or after it. */
export const wavChunks =
  (extra: { readonly first?: Buffer; readonly between?: Buffer; readonly after?: Buffer }) =>
  (file: Buffer): Buffer => {
    const { chunks, form } = wavParts(file)
    return wavOf(form, [
      extra.first ?? Buffer.alloc(0),
      ...chunks.map(({ id, payload }) =>
        Buffer.concat([
          id === "data" ? (extra.between ?? Buffer.alloc(0)) : Buffer.alloc(0),
          riffChunk(id, payload),
          id === "data" ? (extra.after ?? Buffer.alloc(0)) : Buffer.alloc(0),
        ]),
      ),
    ])
  }

/** A chunk of odd size without the padding byte that the specification demands. */
export const unpadded = (id: string, payload: Buffer): Buffer =>
  Buffer.concat([Buffer.from(id), u32le(payload.length), payload])

/** Removes the last byte of the audio, so that its chunk has an odd size, with the next chunk directly behind it or padded. */
export const oddData =
  (isPadded: boolean, after: Buffer) =>
  (file: Buffer): Buffer => {
    const { chunks } = wavParts(file)
    return wavOf(
      "RIFF",
      chunks.map(({ id, payload }) => {
        if (id !== "data") return riffChunk(id, payload)
        const odd = payload.length % 2 === 0 ? payload.subarray(0, -1) : payload
        return Buffer.concat([isPadded ? riffChunk(id, odd) : unpadded(id, odd), after])
      }),
    )
  }

/** Replaces the size in the header of the data chunk, and of the file unless `formSize` is given. */
export const statedSizes =
  (dataSize: number | ((bytes: number) => number), formSize: number | "same" = 0xffff_ffff) =>
  (file: Buffer): Buffer => {
    const copy = Buffer.from(file)
    const at = dataOffset(copy)
    const old = copy.readUInt32LE(at - 4)
    copy.writeUInt32LE((typeof dataSize === "number" ? dataSize : dataSize(old)) >>> 0, at - 4)
    if (formSize !== "same") copy.writeUInt32LE(formSize >>> 0, 4)
    return copy
  }

/** Returns the offset of the first sample. */
const dataOffset = (file: Buffer): number => {
  for (let at = 12; at + 8 <= file.length;) {
    if (file.toString("latin1", at, at + 4) === "data") return at + 8
    const size = file.readUInt32LE(at + 4)
    at += 8 + size + (size % 2)
  }
  throw new Error("the file has no data chunk")
}

/** Turns a WAV file into RF64 or BW64, with the sizes in a `ds64` chunk. */
export const wav64 =
  (form: "RF64" | "BW64", hasSizes: boolean) =>
  (file: Buffer): Buffer => {
    const { chunks } = wavParts(file)
    const data = chunks.find(({ id }) => id === "data")?.payload ?? Buffer.alloc(0)
    const ds64 = Buffer.alloc(28)
    ds64.writeBigUInt64LE(BigInt(file.length + 28), 0)
    ds64.writeBigUInt64LE(BigInt(data.length), 8)
    const rest = chunks.map(({ id, payload }) =>
      id === "data" && !hasSizes
        ? Buffer.concat([Buffer.from("data"), u32le(0xffff_ffff), payload])
        : riffChunk(id, payload),
    )
    if (hasSizes) return wavOf(form, [riffChunk("ds64", ds64), ...rest])
    return wavOf(form, [riffChunk("ds64", ds64), ...rest])
  }

/** Rewrites the format chunk as `WAVE_FORMAT_EXTENSIBLE` with a number of valid bits. */
export const extensible =
  (validBits: number) =>
  (file: Buffer): Buffer => {
    const { chunks, form } = wavParts(file)
    return wavOf(
      form,
      chunks.map(({ id, payload }) => {
        if (id !== "fmt ") return riffChunk(id, payload)
        const format = Buffer.alloc(40)
        payload.copy(format, 0, 0, 16)
        const codec = payload.readUInt16LE(0)
        format.writeUInt16LE(0xfffe, 0)
        format.writeUInt16LE(22, 16)
        format.writeUInt16LE(validBits, 18)
        format.writeUInt32LE(payload.readUInt16LE(2) === 1 ? 4 : 3, 20)
        format.writeUInt16LE(codec === 0xfffe ? payload.readUInt16LE(24) : codec, 24)
        Buffer.from("000000001000800000aa00389b71", "hex").copy(format, 26)
        return riffChunk(id, format)
      }),
    )
  }

/** Chunks that recorders and editors write. */
export const chunksByName: Readonly<Record<string, Buffer>> = {
  LIST: riffChunk(
    "LIST",
    Buffer.concat([
      Buffer.from("INFO"),
      riffChunk("INAM", Buffer.from("A short recording\0")),
      riffChunk("ISFT", Buffer.from("Lavf59.27.100\0")),
    ]),
  ),
  bext: riffChunk("bext", Buffer.concat([Buffer.from("A call that was recorded"), Buffer.alloc(578)])),
  cue: riffChunk(
    "cue ",
    Buffer.concat([u32le(1), u32le(1), u32le(100), Buffer.from("data"), u32le(0), u32le(0), u32le(100)]),
  ),
  id3: riffChunk("id3 ", id3v2({ version: 4 })),
  ID3: riffChunk("ID3 ", id3v2({ version: 3, padding: 1001 })),
  junk: riffChunk("JUNK", Buffer.alloc(28)),
  junkLower: riffChunk("junk", noise(511, 4)),
  PAD: riffChunk("PAD ", Buffer.alloc(4044 - 36)),
  fllr: riffChunk("FLLR", Buffer.alloc(4044)),
  fact: riffChunk("fact", u32le(16_000)),
  smpl: riffChunk("smpl", Buffer.alloc(36)),
  inst: riffChunk("inst", Buffer.alloc(7)),
  iXML: riffChunk("iXML", Buffer.from(`<?xml version="1.0"?><BWFXML><PROJECT>kiln</PROJECT></BWFXML>`)),
  xmp: riffChunk("_PMX", Buffer.from(`<x:xmpmeta xmlns:x="adobe:ns:meta/"/>`)),
  afsp: riffChunk("afsp", Buffer.from("AFspdate: 2024-01-01\0")),
  peak: riffChunk("PEAK", Buffer.concat([u32le(1), u32le(0), Buffer.alloc(8)])),
  chna: riffChunk("chna", Buffer.concat([Buffer.from([1, 0, 1, 0]), Buffer.alloc(40)])),
  large: riffChunk("JUNK", noise(300_000, 9)),
}
