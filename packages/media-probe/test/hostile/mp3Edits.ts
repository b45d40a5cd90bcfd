import { type Edit, put, weighted } from "./edits.ts"
import { cloned, findAll, leaf, type Node, render } from "./nodes.ts"
import { layer3FrameBytes } from "./parse.ts"
import type { Random } from "./random.ts"

const frameRuns = (root: Node): ReadonlyArray<Node> => [...findAll(root, "frames"), ...findAll(root, "first frame")]

/** Returns an ID3 tag that states to be this long. */
export const id3 = (bytes: number, random?: Random): Buffer => {
  const tag = Buffer.from("ID3\x04\0\0\0\0\0\0", "latin1")
  for (let i = 0; i < 4; i++) tag[6 + i] = (bytes >> (7 * (3 - i))) & 0x7f
  if (random !== undefined) {
    tag[3] = random.pick([2, 3, 4, 4, 4, 1, 5, 255])
    tag[4] = random.pick([0, 0, 0, 1, 255])
    tag[5] = random.pick([0, 0, 0, 0x10, 0x40, 0x80, 0xff])
    if (random.chance(0.1)) tag[6 + random.below(4)] = random.between(128, 255)
  }
  return tag
}

const addTag: Edit = ({ random, root }) => {
  const stated = random.pick([0, 0, 0, 10, 100, 1000, 5000, 60_000, 0x0fff_ffff])
  const held = random.pick([0, stated, Math.max(0, stated - 10)])
  const tag = Buffer.concat([id3(stated, random), Buffer.alloc(Math.min(held, 70_000))])
  const at = random.chance(0.6) ? 0 : random.below((root.children?.length ?? 0) + 1)
  root.children?.splice(at, 0, leaf("raw", "ID3", tag))
  return `add a tag at ${at} that states ${stated} bytes and holds ${held}: ${tag.toString("hex", 0, 10)}`
}

/** Puts another format behind a tag, with a few frames around it. */
const hideBehindTag: Edit = ({ donors, foreign, random, root }) => {
  const other = random.pick([...foreign, ...donors.map(({ name, root: donor }) => ({ name, bytes: render(donor) }))])
  const frames = random.pick([0, 0, 1, 2, 3, 6, 10])
  const kept = Buffer.concat(frameRuns(root).map(({ body }) => body))
  let at = 0
  for (let i = 0; i < frames; i++) at += layer3FrameBytes(kept, at)
  const sound = leaf("raw", `${frames} frames`, kept.subarray(0, at))
  const rest = leaf("raw", other.name, other.bytes)
  const tags = Array.from({ length: random.pick([1, 1, 1, 2, 5]) }, () => leaf("raw", "ID3", id3(0)))
  const parts = random.pick([
    [...tags, rest, sound],
    [...tags, sound, rest],
    [...tags, rest],
    [...tags, sound, rest, cloned(sound)],
  ])
  root.children?.splice(0, random.chance(0.8) ? root.children.length : 0, ...parts)
  return `keep ${frames} frames and put ${other.name} behind a tag: ${parts.map(({ name }) => name).join(", ")}`
}

/** Changes the headers of some frames: version, layer, bitrate, rate, or mode. */
const changeHeaders: Edit = ({ random, root }) => {
  const run = random.maybePick(frameRuns(root))
  if (run === undefined) return undefined
  const byte = random.pick([1, 1, 2, 2, 3])
  const bits = random.pick([0x01, 0x02, 0x04, 0x06, 0x08, 0x10, 0x18, 0x0c, 0xf0, 0xc0, 0xff])
  const value = random.below(256)
  const isWhole = random.chance(0.6)
  for (const node of isWhole ? frameRuns(root) : [run]) {
    const body = Buffer.from(node.body)
    for (let at = 0; at < body.length;) {
      const bytes = layer3FrameBytes(node.body, at)
      if (bytes === 0) break
      if (at + byte < body.length) body[at + byte] = ((body[at + byte] ?? 0) & ~bits) | (value & bits)
      at += bytes
    }
    node.body = body
  }
  return `set bits ${bits.toString(16)} of header byte ${byte} to ${value.toString(16)} in ${isWhole ? "all frames" : "a run"}`
}

/** Puts bytes between the frames of a file, or cuts some from each. */
const separate: Edit = ({ random, root }) => {
  const bytes = random.pick([1, 2, 3, 10, 100, 1000, 4000])
  const filler = random.pick([
    Buffer.alloc(bytes),
    Buffer.alloc(bytes, 0xff),
    random.bytes(bytes),
    Buffer.from("TAG".padEnd(bytes)),
  ])
  const isCut = random.chance(0.3)
  for (const node of frameRuns(root)) {
    const frames: Array<Buffer> = []
    for (let at = 0; at < node.body.length;) {
      const length = layer3FrameBytes(node.body, at)
      if (length === 0) break
      frames.push(
        node.body.subarray(at, at + length - (isCut ? Math.min(bytes, length - 4) : 0)),
        ...(isCut ? [] : [filler]),
      )
      at += length
    }
    node.body = Buffer.concat(frames)
  }
  return isCut ? `cut ${bytes} bytes from each frame` : `put ${bytes} bytes behind each frame`
}

/** Mixes in frames of another stream. */
const interleave: Edit = ({ donors, foreign, random, root }) => {
  const streams = foreign.filter(({ name }) => ["ADTS", "MP2", "MP3", "AC-3", "LATM", "DTS"].includes(name))
  const isForeign = random.chance(0.5)
  const donor = random.pick(donors)
  const stream = random.pick(streams)
  const parts = isForeign
    ? Array.from({ length: 20 }, (_, i) => {
        const bytes = Math.ceil(stream.bytes.length / 20)
        return leaf("raw", stream.name, stream.bytes.subarray(i * bytes, (i + 1) * bytes))
      })
    : frameRuns(donor.root).map(cloned)
  const children = root.children ?? []
  parts.forEach((part, i) => children.splice(Math.min(children.length, 1 + 2 * i), 0, part))
  return `interleave ${isForeign ? stream.name : donor.name}`
}

/** Writes a table of contents into the first frame, with a count of frames that is wrong. */
const forgeContents: Edit = ({ random, root }) => {
  const node = random.maybePick(frameRuns(root))
  if (node === undefined || node.body.length < 60) return undefined
  const body = Buffer.from(node.body)
  const name = random.pick(["Xing", "Info", "VBRI", "LAME"])
  const at = name === "VBRI" ? 36 : random.pick([13, 21, 36])
  body.write(name, at, "latin1")
  body.writeUInt32BE(random.pick([0, 1, 3, 15]), at + 4)
  body.writeUInt32BE(random.pick([0, 1, 10, 100_000]), at + 8)
  body.writeUInt32BE(random.pick([0, 1, 1000, 1_000_000]), at + 12)
  node.body = body
  return `write ${name} at ${at} of a frame`
}

const addOtherTag: Edit = ({ random, root }) => {
  const size = random.pick([32, 1000, 0x7fff_ffff])
  const ape = Buffer.alloc(random.pick([32, 64, 1000]))
  ape.write("APETAGEX")
  ape.writeUInt32LE(2000, 8)
  ape.writeUInt32LE(size, 12)
  ape.writeUInt32LE(random.pick([0, 1, 1000]), 16)
  ape.writeUInt32LE(random.pick([0, 0x8000_0000, 0xa000_0000]), 20)
  const tag = random.pick([
    ape,
    Buffer.from("TAG".padEnd(128)),
    Buffer.from("LYRICSBEGIN".padEnd(100)),
    Buffer.from("3DI\x04\0\0\0\0\0\0", "latin1"),
  ])
  put(random, root, leaf("raw", "tag", tag))
  return `add ${tag.toString("latin1", 0, 3)} of ${tag.length} bytes`
}

/** Leaves few frames, so that other content outweighs them. */
const thin: Edit = ({ random, root }) => {
  const runs = frameRuns(root)
  const kept = random.pick([0, 1, 2, 3])
  for (const node of runs.slice(kept)) node.body = Buffer.alloc(0)
  return `keep ${kept} runs of frames`
}

export const mp3Edits: ReadonlyArray<Edit> = weighted(
  [addTag, 2],
  [hideBehindTag, 3],
  [changeHeaders, 2],
  [separate, 1],
  [interleave, 2],
  [forgeContents, 1],
  [addOtherTag, 1],
  [thin, 1],
)
