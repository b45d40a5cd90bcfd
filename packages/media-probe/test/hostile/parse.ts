import { leaf, type Link, type Node, parent, type Size } from "./nodes.ts"

const noBytes: Buffer = Buffer.alloc(0)

/** Bytes before the children of each box that holds boxes. */
const boxHeads: Readonly<Record<string, number>> = {
  moov: 0,
  trak: 0,
  mdia: 0,
  minf: 0,
  stbl: 0,
  edts: 0,
  mvex: 0,
  moof: 0,
  traf: 0,
  udta: 0,
  dinf: 0,
  wave: 0,
  mfra: 0,
  gmhd: 0,
  meta: 4,
  stsd: 8,
  dref: 8,
}

/** Reads an MP4 that ffmpeg wrote. `label` names its media, so that tables can be copied into other files. */
export const parseMp4 = (file: Buffer, label: string): Node => {
  const media: Array<{ readonly from: number; readonly to: number; readonly place: string }> = []
  const links: Array<() => void> = []
  const parseBoxes = (from: number, to: number, inside: string, fragmentAt: number | undefined): Array<Node> => {
    const nodes: Array<Node> = []
    let at = from
    while (at + 8 <= to) {
      const isWide = file.readUInt32BE(at) === 1
      const size = isWide ? Number(file.readBigUInt64BE(at + 8)) : file.readUInt32BE(at) || to - at
      const headerBytes = isWide ? 16 : 8
      if (size < headerBytes || at + size > to) break
      const node = parseBox(at, at + headerBytes, at + size, inside, fragmentAt)
      if (isWide) node.size = { kind: "wide" }
      nodes.push(node)
      at += size
    }
    if (at < to) nodes.push(leaf("raw", "rest", file.subarray(at, to)))
    return nodes
  }
  const parseBox = (start: number, from: number, to: number, inside: string, fragmentAt: number | undefined): Node => {
    const name = file.toString("latin1", start + 4, start + 8)
    const headBytes = inside === "stsd" ? entryHeadBytes(file, from) : boxHeads[name]
    if (headBytes !== undefined && from + headBytes <= to && name !== "avc1" && name !== "mp4v")
      return parent(
        "box",
        name,
        parseBoxes(from + headBytes, to, name, name === "moof" ? start : fragmentAt),
        file.subarray(from, from + headBytes),
      )
    const node = leaf("box", name, file.subarray(from, to))
    if (name === "mdat") {
      node.place = `${label}:${media.length}`
      media.push({ from, to, place: node.place })
    }
    if (name === "stco" || name === "co64" || name === "trun") {
      links.push(() => {
        node.links = linksOf(node, fragmentAt, media)
      })
    }
    return node
  }
  const root = parent("raw", "file", parseBoxes(0, file.length, "", undefined))
  for (const link of links) link()
  return root
}

/** Returns the number of bytes before the boxes of a sample description, which its version determines. */
const entryHeadBytes = (file: Buffer, at: number): number => {
  const version = file.readUInt16BE(at + 8)
  return version === 1 ? 44 : version === 2 ? 64 : 28
}

const linksOf = (
  node: Node,
  fragmentAt: number | undefined,
  media: ReadonlyArray<{ readonly from: number; readonly to: number; readonly place: string }>,
): ReadonlyArray<Link> => {
  const found: Array<Link> = []
  const add = (at: number, bytes: 4 | 8, position: number, from: Link["from"]): void => {
    const held = media.find((candidate) => position >= candidate.from && position < candidate.to)
    if (held) found.push({ at, bytes, place: held.place, distance: position - held.from, from })
  }
  if (node.name === "trun") {
    if ((node.body[3] ?? 0) & 1 && fragmentAt !== undefined) add(8, 4, fragmentAt + node.body.readInt32BE(8), "moof")
    return found
  }
  const bytes = node.name === "co64" ? 8 : 4
  for (let at = 8; at + bytes <= node.body.length; at += bytes)
    add(at, bytes, bytes === 4 ? node.body.readUInt32BE(at) : Number(node.body.readBigUInt64BE(at)), "file")
  return found
}

const ebmlMasters = new Set([
  "1a45dfa3",
  "18538067",
  "1549a966",
  "1654ae6b",
  "ae",
  "e0",
  "e1",
  "1f43b675",
  "a0",
  "75a1",
  "a6",
  "114d9b74",
  "4dbb",
  "1c53bb6b",
  "bb",
  "b7",
  "1254c367",
  "7373",
  "63c0",
  "67c8",
  "6d80",
  "6240",
  "5034",
])

/** Reads a WebM or Matroska file that ffmpeg wrote. The document type becomes `webm`. */
export const parseWebm = (file: Buffer): Node => {
  const number = (at: number, keepsMarker: boolean): { readonly value: number; readonly bytes: number } => {
    const bytes = Math.clz32(file[at] ?? 0) - 23
    let value = keepsMarker ? (file[at] ?? 0) : (file[at] ?? 0) & (0xff >> bytes)
    let isUnknown = value === 0xff >> bytes
    for (let i = 1; i < bytes; i++) {
      value = value * 256 + (file[at + i] ?? 0)
      isUnknown &&= file[at + i] === 255
    }
    return { value: isUnknown && !keepsMarker ? Infinity : value, bytes }
  }
  const parseElements = (from: number, to: number): Array<Node> => {
    const nodes: Array<Node> = []
    for (let at = from; at + 2 <= to;) {
      const id = number(at, true)
      const size = number(at + id.bytes, false)
      const name = file.toString("hex", at, at + id.bytes)
      const begin = at + id.bytes + size.bytes
      const end = Math.min(to, begin + size.value)
      const node = ebmlMasters.has(name)
        ? parent("ebml", name, size.value === Infinity ? [] : parseElements(begin, end))
        : leaf("ebml", name, name === "4282" ? Buffer.from("webm") : file.subarray(begin, end))
      const wide: Size = size.bytes === 8 ? { kind: "wide" } : { kind: "true" }
      node.size = size.value === Infinity ? { kind: "unknown" } : wide
      nodes.push(node)
      at = size.value === Infinity ? begin : end
    }
    return nodes
  }
  return parent("raw", "file", adopted(parseElements(0, file.length)))
}

/** Puts the elements that follow a segment or a cluster of unknown size into it. */
const adopted = (flat: ReadonlyArray<Node>): Array<Node> => {
  const top: Array<Node> = []
  let segment: Node | undefined
  let cluster: Node | undefined
  for (const node of flat) {
    const isLevel1 = node.name.length === 8
    if (node.name === "1a45dfa3") top.push(node)
    else if (node.name === "18538067") {
      segment = node
      top.push(node)
    } else if (isLevel1 || cluster === undefined) {
      ;(segment?.children ?? top).push(node)
      cluster = node.name === "1f43b675" && node.size.kind === "unknown" ? node : undefined
    } else cluster.children?.push(node)
  }
  return top
}

/** Reads a WAVE file that ffmpeg wrote. */
export const parseWav = (file: Buffer): Node => {
  const chunks: Array<Node> = []
  for (let at = 12; at + 8 <= file.length;) {
    const stated = file.readUInt32LE(at + 4)
    const end = Math.min(file.length, at + 8 + stated)
    const chunk = leaf("riff", file.toString("latin1", at, at + 4), file.subarray(at + 8, end))
    if (stated === 0xffff_ffff) chunk.size = { kind: "unknown" }
    chunks.push(chunk)
    at = end + (end % 2)
  }
  const form = parent("riff", file.toString("latin1", 0, 4), chunks, Buffer.from("WAVE"))
  if (file.readUInt32LE(4) === 0xffff_ffff) form.size = { kind: "unknown" }
  return parent("raw", "file", [form])
}

const bitrates = [
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const

/** Returns the length of the layer III frame at an offset; 0 if none begins there. */
export const layer3FrameBytes = (file: Buffer, at: number): number => {
  const kind = file[at + 1] ?? 0
  const rates = file[at + 2] ?? 0
  if (file[at] !== 0xff || (kind & 0xe6) !== 0xe2) return 0
  const version = (kind >> 3) & 3
  const kbps = bitrates[version === 3 ? 0 : 1][rates >> 4] ?? 0
  const rate = ([44_100, 48_000, 32_000][(rates >> 2) & 3] ?? 0) / (version === 3 ? 1 : version === 2 ? 2 : 4)
  if (kbps === 0 || rate === 0) return 0
  return Math.floor(((version === 3 ? 144_000 : 72_000) * kbps) / rate) + ((rates >> 1) & 1)
}

/** Reads an MP3 that ffmpeg wrote as tags and runs of frames. */
export const parseMp3 = (file: Buffer): Node => {
  const parts: Array<Node> = []
  let at = 0
  if (file.toString("latin1", 0, 3) === "ID3") {
    at = 10 + file.subarray(6, 10).reduce((bytes, byte) => bytes * 128 + byte, 0)
    parts.push(leaf("raw", "ID3", file.subarray(0, at)))
  }
  let first = true
  while (layer3FrameBytes(file, at) > 0) {
    const from = at
    for (let frames = 0; frames < (first ? 1 : 8); frames++) {
      const bytes = layer3FrameBytes(file, at)
      if (bytes === 0) break
      at += bytes
    }
    parts.push(leaf("raw", first ? "first frame" : "frames", file.subarray(from, Math.min(at, file.length))))
    first = false
  }
  if (at < file.length) parts.push(leaf("raw", "rest", file.subarray(at)))
  return parent("raw", "file", parts)
}

/** Returns a file as one opaque node. */
export const opaque = (name: string, bytes: Buffer): Node => ({ ...leaf("raw", name, bytes), head: noBytes })
