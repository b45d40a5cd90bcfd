import { type Edit, pickSpot, put, weighted } from "./edits.ts"
import { foreignNode } from "./materials.ts"
import { cloned, findAll, leaf, type Link, type Node, parent, spotsBelow } from "./nodes.ts"
import type { Random } from "./random.ts"
import { boxNames, handlers, numbers, sampleEntries } from "./vocabulary.ts"

const u16 = (value: number): Buffer => Buffer.from([(value >> 8) & 255, value & 255])
export const u32 = (...values: ReadonlyArray<number>): Buffer => u32s(values)
const u32s = (values: ReadonlyArray<number>): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  values.forEach((value, i) => bytes.writeUInt32BE(value >>> 0, 4 * i))
  return bytes
}
const f64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return bytes
}
export const fullBox = (name: string, ...body: ReadonlyArray<Buffer>): Node =>
  leaf("box", name, Buffer.concat([Buffer.alloc(4), ...body]))

/** Tables with more samples are left alone. */
const MAX_SAMPLES = 200_000

/** The tables of one track. */
interface Tables {
  readonly sizes: ReadonlyArray<number>
  /** Number of samples in each chunk. */
  readonly perChunk: ReadonlyArray<number>
}

const child = (node: Node, ...names: ReadonlyArray<string>): Node | undefined =>
  node.children?.find(({ name }) => names.includes(name))

const readTables = (stbl: Node): Tables | undefined => {
  const stsz = child(stbl, "stsz")?.body
  const stsc = child(stbl, "stsc")?.body
  const chunks = child(stbl, "stco", "co64")?.body.readUInt32BE(4)
  if (stsz === undefined || stsc === undefined || chunks === undefined || stsz.length < 12 || stsc.length < 20)
    return undefined
  const one = stsz.readUInt32BE(4)
  if (stsz.readUInt32BE(8) > MAX_SAMPLES || chunks > MAX_SAMPLES) return undefined
  const sizes = Array.from({ length: stsz.readUInt32BE(8) }, (_, i) => one || stsz.readUInt32BE(12 + 4 * i))
  const perChunk: Array<number> = []
  const rows = stsc.readUInt32BE(4)
  for (let row = 0; row < rows; row++) {
    const last = Math.min(chunks, row + 1 < rows ? stsc.readUInt32BE(8 + 12 * (row + 1)) - 1 : chunks)
    while (perChunk.length < last) perChunk.push(stsc.readUInt32BE(12 + 12 * row))
  }
  return { sizes, perChunk }
}

/** Returns the lengths of groups of `count` samples within each chunk; `joins` tells whether to join the next group. */
const joined = (sizes: ReadonlyArray<number>, count: number, joins: () => boolean): ReadonlyArray<number> => {
  const groups: Array<number> = []
  for (let at = 0; at < sizes.length;) {
    const taken = sizes.slice(at, at + (joins() ? count : 1))
    groups.push(taken.reduce((sum, size) => sum + size, 0))
    at += taken.length
  }
  return groups
}

const setTable = (stbl: Node, name: string, head: ReadonlyArray<number>, rows: ReadonlyArray<number>): void => {
  const table = child(stbl, name)
  if (table) table.body = Buffer.concat([Buffer.alloc(4), u32s(head), u32s(rows)])
}

/**
 * Makes one sample of every `count` consecutive samples of a track, by its tables alone. Decoders play all frames of a
 * sample, and tables that give each sample the time of one frame make the track appear short.
 */
export const joinSamples = (
  stbl: Node,
  options: { readonly count: number; readonly joins?: () => boolean; readonly ticks?: number },
): boolean => {
  const tables = readTables(stbl)
  if (tables === undefined) return false
  const { count, joins = () => true, ticks = 1024 } = options
  const sizes: Array<number> = []
  const rows: Array<number> = []
  let at = 0
  tables.perChunk.forEach((samples, chunk) => {
    const groups = joined(tables.sizes.slice(at, at + samples), count, joins)
    at += samples
    sizes.push(...groups)
    rows.push(chunk + 1, groups.length, 1)
  })
  setTable(stbl, "stsz", [0, sizes.length], sizes)
  setTable(stbl, "stsc", [tables.perChunk.length], rows)
  setTable(stbl, "stts", [1], [sizes.length, ticks])
  return true
}

/** Does the same to the runs of fragments. */
export const joinRunSamples = (
  trun: Node,
  options: { readonly count: number; readonly joins?: () => boolean },
): boolean => {
  const { body } = trun
  const { count, joins = () => true } = options
  const flags = body.readUInt32BE(0)
  if (!(flags & 0x200)) return false
  const fields = [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag)
  const headBytes = 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0)
  const rowBytes = 4 * fields.length
  const sizeAt = 4 * fields.indexOf(0x200)
  const samples = Math.floor((body.length - headBytes) / rowBytes)
  const rows = Array.from({ length: samples }, (_, i) =>
    body.subarray(headBytes + i * rowBytes, headBytes + (i + 1) * rowBytes),
  )
  const groups: Array<Buffer> = []
  for (let at = 0; at < rows.length;) {
    const taken = rows.slice(at, at + (joins() ? count : 1))
    const row = Buffer.from(taken[0] ?? Buffer.alloc(rowBytes))
    row.writeUInt32BE(
      taken.reduce((sum, each) => sum + each.readUInt32BE(sizeAt), 0),
      sizeAt,
    )
    groups.push(row)
    at += taken.length
  }
  trun.body = Buffer.concat([body.subarray(0, 4), u32(groups.length), body.subarray(8, headBytes), ...groups])
  return true
}

const entriesOf = (root: Node): ReadonlyArray<Node> => findAll(root, "stsd").flatMap(({ children }) => children ?? [])

const joinFrames: Edit = ({ random, root }) => {
  const count = random.pick([2, 3, 4, 8, 20])
  const share = random.pick([1, 1, 0.5, 0.2])
  const joins = (): boolean => random.chance(share)
  const ticks = random.pick([1024, 1024, 1024 * count, 1])
  const runs = findAll(root, "trun")
  const tables = findAll(root, "stbl").map((stbl) => joinSamples(stbl, { count, joins, ticks }))
  const changed = runs.map((trun) => trun.body.length >= 8 && joinRunSamples(trun, { count, joins }))
  return [...tables, ...changed].includes(true) ? `join ${count} samples into one, for ${share} of them` : undefined
}

const retag: Edit = ({ random, root }) => {
  const entry = random.maybePick(entriesOf(root))
  if (entry === undefined) return undefined
  const before = entry.name
  entry.name = random.pick(sampleEntries)
  return `retag the ${before} entry as ${JSON.stringify(entry.name)}`
}

/** The fields that versions 1 and 2 of a sound description have after those of version 0. */
const versionFields = (version: number, rate: number, channels: number, random: Random): Buffer =>
  version === 1
    ? u32(random.pick([1, 6, 64, 160, 1024, 10_240]), random.pick([0, 1, 34]), random.pick([1, 2, 34, 1024]), 2)
    : version === 2
      ? Buffer.concat([
          u32(72),
          f64(rate),
          u32(channels, 0x7f00_0000, random.pick([8, 16, 32]), random.pick([0, 1, 8, 12]), 2, 1),
        ])
      : Buffer.alloc(0)

const changeEntryVersion: Edit = ({ random, root }) => {
  const stsd = random.maybePick(findAll(root, "stsd"))
  const entry = random.maybePick(stsd?.children ?? [])
  if (stsd === undefined || entry === undefined || entry.head.length < 28) return undefined
  const version = random.below(3)
  const head = Buffer.from(entry.head.subarray(0, 28))
  head.writeUInt16BE(version, 8)
  const rate = random.pick([0, 1, 100, 500, 8000, 48_000, 96_000, 768_000])
  if (random.chance(0.3)) head.writeUInt16BE(Math.min(rate, 65_535), 24)
  entry.head = Buffer.concat([head, versionFields(version, rate, random.pick([1, 2, 8]), random)])
  const outer = Buffer.from(stsd.head)
  outer[0] = random.below(3)
  stsd.head = outer
  if (random.chance(0.3)) changeBrand(random, root)
  return `give the ${entry.name} entry version ${version} in a description of version ${outer[0]}, at ${rate} Hz`
}

const changeBrand = (random: Random, root: Node): string => {
  const brand = random.pick(["qt  ", "isom", "M4A ", "mp42", "3gp4", "avif", "dash", "xxxx"])
  for (const ftyp of findAll(root, "ftyp")) {
    const body = Buffer.from(ftyp.body)
    body.write(brand, random.chance(0.5) ? 0 : Math.max(0, body.length - 4), "latin1")
    ftyp.body = body
  }
  return brand
}

const rebrand: Edit = ({ random, root }) => `change the brand to ${changeBrand(random, root)}`

const changeHandler: Edit = ({ random, root }) => {
  const hdlr = random.maybePick(findAll(root, "hdlr"))
  if (hdlr === undefined || hdlr.body.length < 12) return undefined
  const body = Buffer.from(hdlr.body)
  const handler = random.pick(handlers)
  body.write(handler, 8, "latin1")
  if (random.chance(0.3)) body.write(random.pick(["mhlr", "dhlr", "\0\0\0\0"]), 4, "latin1")
  hdlr.body = body
  return `change a handler to ${JSON.stringify(handler)}`
}

const addEdits: Edit = ({ random, root }) => {
  const trak = random.maybePick(findAll(root, "trak"))
  if (trak === undefined) return undefined
  const rows = random.pick([1, 1, 2, 3, 20, 200])
  const ticks = random.pick([0, 1, 10, 1000, 8000, 0x7fff_ffff, 0xffff_ffff])
  const from = random.pick([0, 0, 0, 1024, 100_000, 0xffff_ffff])
  const isWide = random.chance(0.3)
  const row = isWide ? u32(0, ticks, from === 0xffff_ffff ? from : 0, from, 0x1_0000) : u32(ticks, from, 0x1_0000)
  const list = fullBox("elst", u32(rows), ...Array.from({ length: rows }, () => row))
  if (isWide) list.body = Buffer.concat([Buffer.from([1]), list.body.subarray(1)])
  if (trak.children && random.chance(0.7)) trak.children = trak.children.filter(({ name }) => name !== "edts")
  put(random, trak, random.chance(0.8) ? parent("box", "edts", [list]) : list)
  return `add ${rows} edits of ${ticks} ticks from ${from}`
}

/** Makes all tables state short samples. */
const shortenTimes: Edit = ({ random, root }) => {
  const ticks = random.pick([0, 1, 10, 100])
  for (const stts of findAll(root, "stts")) {
    const body = Buffer.from(stts.body)
    for (let at = 12; at + 4 <= body.length; at += 8) body.writeUInt32BE(ticks, at)
    stts.body = body
  }
  for (const name of ["mvhd", "mdhd", "tkhd"])
    for (const header of findAll(root, name)) {
      const body = Buffer.from(header.body)
      if (body.length >= 24) body.writeUInt32BE(random.pick([0, 1, 1000]), name === "tkhd" ? 20 : 16)
      header.body = body
    }
  return `state ${ticks} ticks a sample`
}

const changeTimescale: Edit = ({ random, root }) => {
  const header = random.maybePick(["mvhd", "mdhd"].flatMap((name) => findAll(root, name)))
  if (header === undefined || header.body.length < 16) return undefined
  const body = Buffer.from(header.body)
  const scale = random.pick(numbers)
  body.writeUInt32BE(scale, 12)
  header.body = body
  return `change the timescale of ${header.name} to ${scale}`
}

const changeTrackId: Edit = ({ random, root }) => {
  const names = [["tkhd", 12] as const, ["tfhd", 4] as const, ["trex", 4] as const]
  const [name, at] = random.pick(names)
  const box = random.maybePick(findAll(root, name))
  if (box === undefined || box.body.length < at + 4) return undefined
  const body = Buffer.from(box.body)
  const id = random.pick([0, 1, 1, 2, 2, 3, 0xffff_ffff])
  body.writeUInt32BE(id, at)
  box.body = body
  return `change the track of ${name} to ${id}`
}

/** Adds a second sample description, and lets some of the chunks use it. */
const addEntry: Edit = ({ donors, random, root }) => {
  const stsd = random.maybePick(findAll(root, "stsd"))
  const entry = random.maybePick(donors.flatMap((donor) => [...entriesOf(donor.root)]))
  if (stsd?.children === undefined || entry === undefined) return undefined
  const copy = cloned(entry)
  if (random.chance(0.4)) copy.name = random.pick(sampleEntries)
  if (random.chance(0.4)) stsd.children.unshift(copy)
  else stsd.children.push(copy)
  if (random.chance(0.8)) {
    const head = Buffer.from(stsd.head)
    head.writeUInt32BE(stsd.children.length, 4)
    stsd.head = head
  }
  const description = random.pick([1, 2, 2, 3])
  for (const stsc of findAll(root, "stsc")) {
    const body = Buffer.from(stsc.body)
    for (let at = 16; at + 4 <= body.length; at += 12) body.writeUInt32BE(description, at)
    stsc.body = body
  }
  return `add a ${JSON.stringify(copy.name)} entry and use entry ${description}`
}

/** Lets the table of chunks repeat them, which plays the same bytes several times. */
const repeatChunks: Edit = ({ random, root }) => {
  const stbl = random.maybePick(findAll(root, "stbl"))
  const stco = stbl && child(stbl, "stco")
  const tables = stbl && readTables(stbl)
  if (stbl === undefined || stco === undefined || tables === undefined) return undefined
  const times = random.pick([2, 5, 20])
  if (tables.sizes.length * times > MAX_SAMPLES) return undefined
  const repeat = <A>(list: ReadonlyArray<A>): Array<A> => Array.from({ length: times }, () => list).flat()
  const body = stco.body.subarray(8)
  const links = stco.links
  stco.body = Buffer.concat([Buffer.alloc(4), u32(tables.perChunk.length * times), ...repeat([body])])
  stco.links = Array.from({ length: times }, (_, i) =>
    links.map((link): Link => ({ ...link, at: link.at + i * body.length })),
  ).flat()
  const sizes = repeat(tables.sizes)
  const rows = repeat(tables.perChunk).flatMap((samples, chunk) => [chunk + 1, samples, 1])
  if (random.chance(0.8)) setTable(stbl, "stsz", [0, sizes.length], sizes)
  if (random.chance(0.8)) setTable(stbl, "stsc", [rows.length / 3], rows)
  if (random.chance(0.5)) setTable(stbl, "stts", [1], [sizes.length, 1024])
  return `repeat the chunks ${times} times`
}

/** Writes the sizes of samples in the compact form, or the positions of chunks in 64 bits. */
const changeTableForm: Edit = ({ random, root }) => {
  if (random.chance(0.5)) {
    const stsz = random.maybePick(findAll(root, "stsz"))
    if (stsz === undefined || stsz.body.length < 12 || stsz.body.readUInt32BE(4) !== 0) return undefined
    const bits = random.pick([4, 8, 16, 16, 32])
    const count = stsz.body.readUInt32BE(8)
    if (count > MAX_SAMPLES) return undefined
    const sizes = Array.from({ length: count }, (_, i) =>
      stsz.body.readUInt32BE(Math.min(12 + 4 * i, stsz.body.length - 4)),
    )
    const rows =
      bits === 16
        ? Buffer.concat(sizes.map((size) => u16(size)))
        : bits === 8
          ? Buffer.from(sizes)
          : Buffer.alloc(Math.ceil((count * bits) / 8), 0x55)
    stsz.name = "stz2"
    stsz.body = Buffer.concat([Buffer.alloc(4), u32(bits, count), rows])
    return `write the sizes in ${bits} bits`
  }
  const stco = random.maybePick(findAll(root, "stco"))
  if (stco === undefined) return undefined
  const count = Math.floor((stco.body.length - 8) / 4)
  const body = Buffer.alloc(8 + 8 * count)
  stco.body.copy(body, 0, 0, 8)
  for (let i = 0; i < count; i++) body.writeUInt32BE(stco.body.readUInt32BE(8 + 4 * i), 12 + 8 * i)
  stco.name = "co64"
  stco.body = body
  stco.links = stco.links.map((link) => ({ ...link, bytes: 8, at: 8 + (link.at - 8) * 2 }))
  return "write the positions in 64 bits"
}

/** Codecs by tag, with a foreign format that holds their frames, and the bytes of a frame. */
const packings = [
  { format: "AC-3", bytes: 128, tags: ["ac-3", "sac3", "ec-3", "ms \0"] },
  { format: "E-AC-3", bytes: 128, tags: ["ec-3", "ac-3", "sac3"] },
  { format: "MP2", bytes: 72, tags: [".mp1", ".mp2", ".mp3", "mp3 ", "ms\0P", "ms\0U", "mp4a"] },
  { format: "MP3", bytes: 72, tags: [".mp1", ".mp3", "mp3 ", "ms\0U", "TS\0U"] },
  { format: "EVRC", bytes: 23, tags: ["sevc", "ssvm", "sqcp"] },
  { format: "AMR", bytes: 13, tags: ["samr", "sawb", "ilbc"] },
  { format: "GSM", bytes: 33, tags: ["agsm", "ms\0\x31"] },
  { format: "DTS", bytes: 426, tags: ["dtsc", "DTS ", "dtsh", "dtse"] },
  { format: "ADTS", bytes: 140, tags: ["mp4a", "aac "] },
  {
    format: "AU",
    bytes: 64,
    tags: ["nmos", "NELL", "ulaw", "alaw", "sqcp", "Qclp", "Qclq", "ima4", "MAC3", "MAC6", "twos"],
  },
] as const

/** Returns a box of a sound track whose samples have one size. */
export const soundTrackOf = (options: {
  readonly tag: string
  readonly sampleBytes: number
  readonly samples: number
  readonly place: string
  readonly id: number
  readonly channels: number
  readonly rate: number
  readonly ticks: number
  readonly handler?: string
}): Node => {
  const { channels, handler = "soun", id, place, rate, sampleBytes, samples, tag, ticks } = options
  const head = Buffer.concat([
    Buffer.from([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
    u16(channels),
    u16(16),
    u32(0, rate * 65_536),
  ])
  const stco = fullBox("stco", u32(1, 0))
  stco.links = [{ at: 8, bytes: 4, place, distance: 0, from: "file" }]
  const stbl = parent("box", "stbl", [
    parent("box", "stsd", [parent("box", tag, [], head)], u32(0, 1)),
    fullBox("stts", u32(1, samples, ticks)),
    fullBox("stsz", u32(sampleBytes, samples)),
    fullBox("stsc", u32(1, 1, samples, 1)),
    stco,
  ])
  const handlerBox = fullBox("hdlr", u32(0), Buffer.from(handler, "latin1"), Buffer.alloc(13))
  return parent("box", "trak", [
    leaf("box", "tkhd", Buffer.concat([u32(7, 0, 0, id), Buffer.alloc(68)])),
    parent("box", "mdia", [
      fullBox("mdhd", u32(0, 0, 8000, 8000, 0)),
      handlerBox,
      parent("box", "minf", [fullBox("smhd", u32(0)), parent("box", "dinf", []), stbl]),
    ]),
  ])
}

const addSoundTrack: Edit = ({ foreign, random, root }) => {
  const { bytes, format, tags } = random.pick(packings)
  const media = foreign.find(({ name }) => name === format)
  const moov = random.maybePick(findAll(root, "moov"))
  if (media === undefined || moov === undefined) return undefined
  const tag = random.chance(0.8) ? random.pick(tags) : random.pick(sampleEntries)
  const perSample = random.pick([1, 1, 1, 4, 50])
  const sampleBytes = bytes * perSample
  const mdat = foreignNode(media)
  if (format === "AMR") mdat.body = mdat.body.subarray(6)
  mdat.syntax = "box"
  mdat.place = media.name
  mdat.name = random.chance(0.8) ? "mdat" : random.pick(["free", "skip", "udta", "xxxx"])
  const track = soundTrackOf({
    tag,
    sampleBytes,
    samples: Math.floor(mdat.body.length / sampleBytes),
    place: media.name,
    id: random.pick([1, 2, 3, 3]),
    channels: random.pick([1, 2, 2]),
    rate: random.pick([8000, 8000, 16_000, 48_000]),
    ticks: random.pick([1, 160, 256, 1024]),
    handler: random.chance(0.7) ? "soun" : random.pick(handlers),
  })
  if (random.chance(0.5)) moov.children?.splice(1, 0, track)
  else moov.children?.push(track)
  root.children?.push(mdat)
  return `add a track of ${format} tagged ${JSON.stringify(tag)}, ${perSample} frames a sample`
}

/** Puts tables of the donor into the `stbl` or `trak` of the base, inside a box that readers may skip or enter. */
const graftTables: Edit = ({ donors, random, root }) => {
  const donor = random.pick(donors)
  const tables = random.maybePick(findAll(donor.root, "stbl"))
  const hosts = random.chance(0.6) ? ["stbl"] : ["stbl", "minf", "mdia", "trak", "moov"]
  const host = pickSpot(random, root, ({ node }) => hosts.includes(node.name))?.node
  if (tables === undefined || host === undefined) return undefined
  const keepsEntry = random.chance(0.3)
  const copies = (tables.children ?? []).filter(({ name }) => keepsEntry || name !== "stsd").map(cloned)
  const name = random.pick(wrappers)
  const at = random.chance(0.7) ? (host.children?.length ?? 0) : random.below((host.children?.length ?? 0) + 1)
  host.children?.splice(at, 0, parent("box", name, copies))
  return `put the tables of ${donor.name} in ${name} into ${host.name}`
}

/**
 * Puts tables of the first samples in plain sight, and the true ones inside boxes in front of and behind them: of some tables
 * ffmpeg takes the first, of others the last.
 */
const hideTables: Edit = ({ random, root }) => {
  const stbl = random.maybePick(findAll(root, "stbl"))
  const tables = stbl && readTables(stbl)
  if (stbl?.children === undefined || tables === undefined) return undefined
  const kept = Math.min(tables.perChunk[0] ?? 0, random.pick([1, 4, 16]))
  const sizes = tables.sizes.slice(0, kept)
  const places = child(stbl, "stco")
  if (places === undefined || places.body.length < 12) return undefined
  const stco = {
    ...places,
    body: Buffer.concat([u32(0, 1), places.body.subarray(8, 12)]),
    links: places.links.slice(0, 1),
  }
  const decoys = [
    fullBox("stts", u32(1, kept, 1024)),
    fullBox("stsz", u32(0, kept), u32s(sizes)),
    fullBox("stsc", u32(1, 1, kept, 1)),
    stco,
  ].filter(() => random.chance(0.9))
  const isTable = ({ name }: Node): boolean => ["stts", "stsz", "stsc", "stco", "co64"].includes(name)
  const isFirst = ({ name }: Node): boolean => ["stsc", "stco", "co64"].includes(name)
  const isSwapped = random.chance(0.2)
  const hidden = stbl.children.filter(isTable)
  const name = random.pick(random.chance(0.7) ? wrappers : boxNames)
  const wrap = (nodes: ReadonlyArray<Node>): Node =>
    parent("box", name, nodes, Buffer.alloc(random.pick([0, 0, 0, 4, 8])))
  const front = wrap(hidden.filter((node) => isFirst(node) !== isSwapped))
  const back = wrap(hidden.filter((node) => isFirst(node) === isSwapped))
  stbl.children = [...stbl.children.filter((node) => !isTable(node)), front, ...decoys, back]
  return `hide the tables in ${name} around those of ${kept} samples`
}

const wrappers = [
  "udta",
  "dinf",
  "wave",
  "ilst",
  "sinf",
  "schi",
  "tref",
  "edts",
  "free",
  "meta",
  "stsd",
  "mp4a",
  "uuid",
]

/** Puts elements of the entry's kind where ffmpeg reads further boxes: into the sample description. */
const graftIntoEntry: Edit = ({ donors, random, root }) => {
  const entry = random.maybePick(entriesOf(root))
  const donor = random.pick(donors)
  const spot = pickSpot(random, donor.root, ({ node }) => node.name !== "mdat" && node.syntax === "box")
  if (entry === undefined || spot === undefined) return undefined
  put(random, entry, cloned(spot.node))
  return `put ${spot.node.name} of ${donor.name} into the ${entry.name} entry`
}

const dropTables: Edit = ({ random, root }) => {
  const name = random.pick([
    "stts",
    "stsz",
    "stsc",
    "stco",
    "hdlr",
    "mdhd",
    "tkhd",
    "stsd",
    "esds",
    "trex",
    "tfhd",
    "edts",
  ])
  const spot = random.maybePick(spotsBelow(root).filter(({ node }) => node.name === name))
  if (spot === undefined) return undefined
  const at = spot.parent.children?.indexOf(spot.node) ?? -1
  spot.parent.children?.splice(at, 1)
  return `drop ${name}`
}

export const mp4Edits: ReadonlyArray<Edit> = weighted(
  [joinFrames, 2],
  [retag, 2],
  [changeEntryVersion, 2],
  [rebrand, 1],
  [changeHandler, 1],
  [addEdits, 2],
  [shortenTimes, 2],
  [changeTimescale, 1],
  [changeTrackId, 1],
  [addEntry, 1],
  [repeatChunks, 1],
  [changeTableForm, 1],
  [addSoundTrack, 3],
  [graftTables, 2],
  [hideTables, 3],
  [graftIntoEntry, 1],
  [dropTables, 1],
)
