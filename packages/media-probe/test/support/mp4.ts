import { aac, box, ftyp, stts, u32 } from "./files.ts"

const none: Buffer = Buffer.alloc(0)
const zeros = (bytes: number): Buffer => Buffer.alloc(bytes)

/** An AAC frame of one silent channel: 1,024 samples in four bytes, the fewest possible. */
export const aacFrame: Buffer = Buffer.from([0, 0, 0, 7])

export const stsz = (size: number, count: number, rows = none): Buffer =>
  box("stsz", zeros(4), u32(size), u32(count), rows)
export const stsc = (...rows: ReadonlyArray<number>): Buffer =>
  box("stsc", zeros(4), u32(rows.length / 3), ...rows.map(u32))
export const stco = (...offsets: ReadonlyArray<number>): Buffer =>
  box("stco", zeros(4), u32(offsets.length), ...offsets.map(u32))

/** An edit list of rows of a duration in ticks of the movie, and a beginning in ticks of the track. */
export const edits = (...rows: ReadonlyArray<readonly [ticks: number, from: number]>): Buffer =>
  box(
    "edts",
    box(
      "elst",
      zeros(4),
      u32(rows.length),
      ...rows.map(([ticks, from]) => Buffer.concat([u32(ticks), u32(from), u32(0x1_0000)])),
    ),
  )

/** A track whose samples are in the media data one after the other. */
export interface TrackShape {
  readonly id?: number
  readonly handler?: string
  /** The sample description; AAC at 48 kHz by default. */
  readonly entry?: Buffer
  readonly ticksPerSecond?: number
  readonly samples?: ReadonlyArray<Buffer>
  /** Ticks of each sample; 1,024 by default. */
  readonly ticks?: number
  /** Boxes of the sample table behind the description, instead of those that fit the samples. */
  readonly tables?: (at: number) => ReadonlyArray<Buffer>
  /** Further boxes in the track, and in the box with the handler behind that. */
  readonly inTrack?: Buffer
  readonly inMedia?: Buffer
}

const tablesOf = ({ samples = [], ticks = 1024 }: TrackShape, at: number): ReadonlyArray<Buffer> =>
  samples.length === 0
    ? [stts(), stsz(0, 0), stsc(), stco()]
    : [
        stts([samples.length, ticks]),
        stsz(0, samples.length, Buffer.concat(samples.map(({ length }) => u32(length)))),
        stsc(1, samples.length, 1),
        stco(at),
      ]

const trak = (shape: TrackShape, id: number, at: number): Buffer => {
  const { entry = aac(48_000), handler = "soun", inMedia = none, inTrack = none, ticksPerSecond = 48_000 } = shape
  const tables = (shape.tables ?? ((offset) => tablesOf(shape, offset)))(at)
  return box(
    "trak",
    box("tkhd", zeros(12), u32(shape.id ?? id), zeros(68)),
    inTrack,
    box(
      "mdia",
      box("mdhd", zeros(12), u32(ticksPerSecond), zeros(8)),
      box("hdlr", zeros(8), Buffer.from(handler), zeros(13)),
      inMedia,
      // QuickTime writes a second handler, for the data.
      box("minf", box("hdlr", zeros(4), Buffer.from("dhlrurl "), zeros(13)), box("stbl", entry, ...tables)),
    ),
  )
}

const trex = (ticks: number, bytes: number, id: number): Buffer =>
  box("trex", zeros(4), u32(id), u32(1), u32(ticks), u32(bytes), zeros(4))

export interface MovieShape {
  /** Default ticks and bytes of the samples in fragments. */
  readonly defaults?: readonly [ticks: number, bytes: number]
  /** Further boxes in the movie, and after it. */
  readonly inMovie?: Buffer
  readonly between?: Buffer
  /** Bytes of the media data after the samples. */
  readonly unused?: Buffer
}

/** A file of some tracks, its description first. The movie has 1,000 ticks a second. */
export const mp4 = (tracks: ReadonlyArray<TrackShape>, shape: MovieShape = {}): Buffer => {
  const { between = none, inMovie = none, unused = none } = shape
  const ids = tracks.map(({ id }, index) => id ?? index + 1)
  const { defaults } = shape
  const mvex = defaults === undefined ? none : box("mvex", ...ids.map((id) => trex(...defaults, id)))
  const data = tracks.map(({ samples = [] }) => Buffer.concat(samples))
  const head = (start: number): Buffer => {
    let at = start
    const traks = tracks.map((track, index) => {
      const all = trak(track, index + 1, at)
      at += data[index]?.length ?? 0
      return all
    })
    return Buffer.concat([
      ftyp,
      box("moov", box("mvhd", zeros(12), u32(1000), zeros(84)), ...traks, mvex, inMovie),
      between,
    ])
  }
  const media = Buffer.concat([...data, unused])
  return Buffer.concat([head(head(0).length + 8), media.length > 0 ? box("mdat", media) : none])
}

/**
 * A fragment of one run with its data: flags as the specification numbers them, and the words of the rows. The run states where its
 * data begin.
 */
export const fragment = (
  trackId: number,
  run: { readonly flags?: number; readonly samples: number; readonly words?: ReadonlyArray<number> },
  data: Buffer,
): Buffer => {
  const moof = (offset: number): Buffer =>
    box(
      "moof",
      box(
        "traf",
        box("tfhd", u32(0x02_0000), u32(trackId)),
        box("trun", u32(0x1 | (run.flags ?? 0)), u32(run.samples), u32(offset), ...(run.words ?? []).map(u32)),
      ),
    )
  return Buffer.concat([moof(moof(0).length + 8), box("mdat", data)])
}
