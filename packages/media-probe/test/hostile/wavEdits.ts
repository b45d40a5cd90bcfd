import { type Edit, put, weighted } from "./edits.ts"
import { cloned, findAll, leaf, type Node } from "./nodes.ts"
import type { Random } from "./random.ts"
import { chunkNames, numbers, waveTags } from "./vocabulary.ts"

const format = (root: Node, random: Random): Node | undefined =>
  random.maybePick(findAll(root, "fmt ").filter(({ body }) => body.length >= 16))

/** The fields of the format by offset. */
const fields = [
  { name: "channels", at: 2, bytes: 2, values: [0, 1, 2, 3, 6, 8, 64, 255, 65_535] },
  { name: "rate", at: 4, bytes: 4, values: [0, 1, 100, 4000, 8000, 44_100, 48_000, 96_000, 192_000, 768_000, 2 ** 31] },
  { name: "bytes a second", at: 8, bytes: 4, values: [0, 1, 1000, 1_000_000_000] },
  { name: "block size", at: 12, bytes: 2, values: [0, 1, 2, 3, 4, 8, 32, 36, 65, 256, 1024, 65_535] },
  { name: "bits", at: 14, bytes: 2, values: [0, 1, 2, 3, 4, 5, 8, 9, 12, 16, 20, 24, 32, 64, 128] },
] as const

const changeTag: Edit = ({ random, root }) => {
  const node = format(root, random)
  if (node === undefined) return undefined
  const body = Buffer.from(node.body)
  const tag = random.pick(waveTags)
  body.writeUInt16LE(tag)
  node.body = body
  return `change the codec to 0x${tag.toString(16)}`
}

const changeField: Edit = ({ random, root }) => {
  const node = format(root, random)
  if (node === undefined) return undefined
  const { at, bytes, name, values } = random.pick(fields)
  const body = Buffer.from(node.body)
  const value = random.pick<number>(values)
  body.writeUIntLE(value, at, bytes)
  node.body = body
  return `change the ${name} to ${value}`
}

/** Gives the format an extension that names the codec again. */
const extend: Edit = ({ random, root }) => {
  const node = format(root, random)
  if (node === undefined) return undefined
  const body = Buffer.alloc(40)
  node.body.copy(body, 0, 0, 16)
  const codec = random.chance(0.5) ? node.body.readUInt16LE(0) : random.pick(waveTags)
  body.writeUInt16LE(random.chance(0.8) ? 0xfffe : node.body.readUInt16LE(0))
  body.writeUInt16LE(random.pick([22, 22, 0, 65_535]), 16)
  body.writeUInt16LE(random.pick([0, 8, 12, 16, 20, 24, 32]), 18)
  body.writeUInt16LE(codec, 24)
  Buffer.from("000000001000800000aa00389b71", "hex").copy(body, 26)
  if (random.chance(0.2)) body[random.between(24, 39)] = random.below(256)
  node.body = body.subarray(0, random.pick([16, 18, 22, 24, 38, 40, 40, 40]))
  return `extend the format to ${node.body.length} bytes, codec 0x${codec.toString(16)}`
}

/** Lets plain samples be frames of another format, which some decoders play instead. */
const disguise: Edit = ({ foreign, random, root }) => {
  const data = random.maybePick(findAll(root, "data"))
  const node = format(root, random)
  if (data === undefined || node === undefined) return undefined
  const other = random.pick(foreign)
  const silence = Buffer.alloc(random.pick([0, 0, 0, 1, 2, 3, 100, 1000, 5000]))
  const body = Buffer.from(node.body)
  body.writeUInt16LE(random.pick([1, 1, 1, 3]))
  const channels = random.pick([1, 2, 2, 2, 6])
  body.writeUInt16LE(channels, 2)
  body.writeUInt32LE(random.pick([8000, 44_100, 44_100, 48_000, 48_000, 96_000, 192_000]), 4)
  body.writeUInt16LE(random.pick([16, 16, 16, 24, 32]), 14)
  body.writeUInt16LE(channels * (body.readUInt16LE(14) >> 3), 12)
  node.body = body
  const isSwapped = random.chance(0.2)
  const bytes = Buffer.from(other.bytes.subarray(0, other.bytes.length & ~1))
  data.body = Buffer.concat([silence, isSwapped ? bytes.swap16() : bytes])
  return `fill the samples with ${other.name}${isSwapped ? ", swapped" : ""}, behind ${silence.length} bytes`
}

/** Adds data of the donor in a further chunk, behind or in front of the first one. */
const addData: Edit = ({ donors, random, root }) => {
  const form = random.maybePick(findAll(root, "RIFF").concat(findAll(root, "RF64")))
  const data = random.maybePick(findAll(random.pick(donors).root, "data"))
  if (form === undefined || data === undefined) return undefined
  const copy = cloned(data)
  if (random.chance(0.3)) copy.name = random.pick(chunkNames)
  if (random.chance(0.4))
    copy.size = random.pick([{ kind: "unknown" }, { kind: "stated", value: random.pick(numbers) }])
  put(random, form, copy)
  return `add ${copy.body.length} bytes in a ${JSON.stringify(copy.name)} chunk`
}

const addFormat: Edit = ({ donors, random, root }) => {
  const form = random.maybePick(findAll(root, "RIFF"))
  const other = random.maybePick(findAll(random.pick(donors).root, "fmt "))
  if (form === undefined || other === undefined) return undefined
  const copy = cloned(other)
  put(random, form, copy)
  if (random.chance(0.5)) changeField({ donors: [], foreign: [], format: "wav", random, root: copyRoot(copy) })
  return "add a second format"
}

const copyRoot = (node: Node): Node => ({ ...leaf("raw", "file", Buffer.alloc(0)), children: [node] })

const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** Makes it a 64-bit form, with sizes that may be wrong. */
const widen: Edit = ({ random, root }) => {
  const form = random.maybePick(root.children ?? [])
  if (form?.children === undefined) return undefined
  form.name = random.pick(["RF64", "RF64", "BW64", "RIFF", "RIFX"])
  const bytes = findAll(root, "data")[0]?.body.length ?? 0
  const stated = random.pick([bytes, bytes, 0, 100, 8000, bytes * 2, 2 ** 40, 2 ** 53])
  const chunk = leaf(
    "riff",
    "ds64",
    Buffer.concat([u64(0xffff), u64(stated), u64(random.pick([0, 1, 8000])), Buffer.alloc(4)]),
  )
  form.children.splice(random.chance(0.8) ? 0 : form.children.length, 0, chunk)
  for (const data of findAll(root, "data"))
    data.size = random.pick([
      { kind: "unknown" },
      { kind: "true" },
      { kind: "stated", value: random.pick([0, 100, 8000]) },
    ])
  return `make it ${form.name} of ${stated} bytes`
}

const restateData: Edit = ({ random, root }) => {
  const data = random.maybePick(findAll(root, "data"))
  if (data === undefined) return undefined
  const value = random.pick([
    0,
    1,
    2,
    100,
    8000,
    data.body.length >> 1,
    data.body.length + 1,
    0x7fff_ffff,
    0xffff_fffe,
    0xffff_ffff,
  ])
  data.size = { kind: "stated", value }
  return `state ${value} bytes of data`
}

const addFact: Edit = ({ random, root }) => {
  const form = random.maybePick(findAll(root, "RIFF"))
  if (form === undefined) return undefined
  const samples = random.pick(numbers)
  const body = Buffer.alloc(4)
  body.writeUInt32LE(samples)
  put(random, form, leaf("riff", "fact", body))
  return `state ${samples} samples`
}

export const wavEdits: ReadonlyArray<Edit> = weighted(
  [changeTag, 2],
  [changeField, 3],
  [extend, 2],
  [disguise, 4],
  [addData, 2],
  [addFormat, 1],
  [widen, 2],
  [restateData, 2],
  [addFact, 1],
)
