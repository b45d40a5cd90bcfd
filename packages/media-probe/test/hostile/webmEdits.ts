import { deflateSync } from "node:zlib"
import { type Edit, pickParent, put, weighted } from "./edits.ts"
import { cloned, findAll, leaf, type Node, parent, type Spot, spotsBelow } from "./nodes.ts"
import type { Random } from "./random.ts"
import { ebmlIds, numbers, webmCodecs } from "./vocabulary.ts"

const uint = (value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  const first = bytes.findIndex((byte) => byte > 0)
  return bytes.subarray(first === -1 ? 7 : first)
}
const element = (id: string, body: Buffer): Node => leaf("ebml", id, body)

/** Returns the elements that hold frames, in file order. */
const blocksOf = (root: Node): ReadonlyArray<Spot> =>
  spotsBelow(root).filter(({ node }) => (node.name === "a3" || node.name === "a1") && node.body.length > 4)

const renumberBlocks: Edit = ({ random, root }) => {
  const number = random.pick([0, 1, 2, 3, 100, 127])
  const share = random.pick([1, 1, 0.9, 0.5])
  const field = random.chance(0.8) ? Buffer.from([0x80 | number]) : Buffer.from([0x40, number])
  for (const { node } of blocksOf(root))
    if (random.chance(share)) node.body = Buffer.concat([field, node.body.subarray(1)])
  return `give ${share} of the blocks track number ${number}`
}

const renumberTrack: Edit = ({ random, root }) => {
  const number = random.maybePick(findAll(root, "d7"))
  if (number === undefined) return undefined
  number.body = random.pick([
    uint(random.pick([0, 1, 2, 3, 127, 255])),
    Buffer.alloc(0),
    Buffer.from([0, 0, 1]),
    Buffer.alloc(9, 1),
  ])
  return `change a track number to ${number.body.toString("hex")}`
}

/** Puts elements that describe tracks where no track is being described. */
const addStrays: Edit = ({ donors, random, root }) => {
  const made = random.pick<() => Node>([
    () => element("d7", uint(random.pick([1, 2, 3, 100]))),
    () => element("d7", uint(random.pick([1, 2, 3, 100]))),
    () => element("d7", uint(random.pick([1, 2, 3, 100]))),
    () => element("86", Buffer.from(random.pick(webmCodecs))),
    () => element("83", uint(random.pick([1, 2, 17]))),
    () => element("23e383", uint(random.pick([1, 1000, 20_000_000, 2 ** 40]))),
    () => element("2ad7b1", uint(random.pick([1, 1000, 1_000_000, 1_000_000_000]))),
    () => element("e7", uint(random.pick(numbers))),
    () => cloned(random.pick(findAll(random.pick(donors).root, "ae"))),
    () => cloned(random.pick(findAll(random.pick(donors).root, "1f43b675"))),
    () => {
      const setups = donors.flatMap((donor) => findAll(donor.root, "63a2"))
      return setups.length === 0 ? element("63a2", random.bytes(19)) : cloned(random.pick(setups))
    },
  ])()
  const isHidden = random.chance(0.4)
  const wrapper = random.pick(["ec", "e1", "e0", "1254c367", "7373", "1941a469", "6d80", "e2", ...ebmlIds])
  const into = pickParent({ random, root })
  put(random, into, isHidden ? parent("ebml", wrapper, [made]) : made)
  return `put ${made.name} ${made.body.toString("hex").slice(0, 16)}${isHidden ? ` in ${wrapper}` : ""} into ${into.name}`
}

/** Puts an element that describes a track, or more tracks, between or into the clusters, so that it comes behind some blocks. */
const interrupt: Edit = ({ donors, random, root }) => {
  const segment = random.maybePick(findAll(root, "18538067"))
  const clusters = segment?.children?.filter(({ name }) => name === "1f43b675") ?? []
  const after = random.maybePick(clusters)
  if (segment?.children === undefined || after === undefined) return undefined
  const made = random.pick<() => Node>([
    () => element("d7", uint(random.pick([2, 3, 100]))),
    () => element("86", Buffer.from(random.pick(webmCodecs))),
    () => element("83", uint(random.pick([1, 17]))),
    () => element("63a2", random.bytes(19)),
    () => element("23e383", uint(1)),
    () => cloned(random.pick(findAll(random.pick(donors).root, "1654ae6b"))),
    () => cloned(random.pick(findAll(random.pick(donors).root, "ae"))),
  ])()
  const cover = random.pick([undefined, undefined, "1549a966", "a0", "1f43b675", "e1", "1254c367", "ec"])
  const node = cover === undefined ? made : parent("ebml", cover, [made])
  const isInside = random.chance(0.4)
  if (isInside) put(random, after, node)
  else segment.children.splice(segment.children.indexOf(after) + 1, 0, node)
  return `put ${made.name}${cover === undefined ? "" : ` in ${cover}`} ${isInside ? "into" : "behind"} a cluster`
}

const changeCodec: Edit = ({ random, root }) => {
  const codec = random.maybePick(findAll(root, "86"))
  if (codec === undefined) return undefined
  codec.body = Buffer.from(random.pick(webmCodecs) + random.pick(["", "", "", "\0\0", " "]))
  return `change a codec to ${JSON.stringify(codec.body.toString("latin1"))}`
}

const changeType: Edit = ({ random, root }) => {
  const type = random.maybePick(findAll(root, "83"))
  if (type === undefined) return undefined
  type.body = random.pick([
    uint(random.pick([0, 1, 2, 3, 17, 18, 32])),
    Buffer.alloc(0),
    Buffer.from([0, 2]),
    Buffer.from([1, 2]),
  ])
  return `change a track type to ${type.body.toString("hex")}`
}

/** Returns the sizes before a lace's frames, in Xiph's or in EBML's form; nothing for frames of one size. */
const laceHead = (lacing: number, sizes: ReadonlyArray<number>): Buffer => {
  const bytes: Array<number> = [sizes.length - 1]
  if (lacing === 1)
    for (let size of sizes.slice(0, -1)) {
      for (; size >= 255; size -= 255) bytes.push(255)
      bytes.push(size)
    }
  if (lacing === 3) {
    let before = 0
    sizes.slice(0, -1).forEach((size, i) => {
      const value = i === 0 ? size : size - before + 0x1fff
      bytes.push(0x40 | (value >> 8), value & 255)
      before = size
    })
  }
  return Buffer.from(bytes)
}

/** Joins consecutive blocks into laces, or frames without a lace. */
const relace: Edit = ({ random, root }) => {
  const count = random.pick([2, 3, 8, 60])
  const lacing = random.pick([0, 1, 2, 3])
  let laced = 0
  for (const cluster of findAll(root, "1f43b675")) {
    const children: Array<Node> = []
    let group: Array<Node> = []
    const flush = (): void => {
      const frames = group.map(({ body }) => body.subarray(4))
      const first = group[0]
      if (first === undefined) return
      if (frames.length > 1) {
        laced++
        const flags = Buffer.from(first.body.subarray(0, 4))
        flags[3] = ((flags[3] ?? 0) & ~6) | (lacing << 1)
        const sizes = frames.map(({ length }) => length)
        first.body = Buffer.concat([flags, ...(lacing === 0 ? [] : [laceHead(lacing, sizes)]), ...frames])
      }
      children.push(first)
      group = []
    }
    for (const node of cluster.children ?? []) {
      const isLike = node.name === "a3" && node.body.length > 4 && (group[0]?.body[0] ?? node.body[0]) === node.body[0]
      if (!isLike || group.length === count) flush()
      if (node.name === "a3" && node.body.length > 4) group.push(node)
      else children.push(node)
    }
    flush()
    cluster.children = children
  }
  return laced > 0 ? `join ${count} blocks with lacing ${lacing}` : undefined
}

/** Puts all simple blocks into groups, some of them with a duration. */
const groupBlocks: Edit = ({ random, root }) => {
  const ticks = random.pick([undefined, 0, 1, 20, 3_600_000])
  const spots = spotsBelow(root).filter(({ node }) => node.name === "a3")
  if (spots.length === 0) return undefined
  for (const { node, parent: cluster } of spots) {
    const block = { ...cloned(node), name: random.chance(0.98) ? "a1" : random.pick(["af", "a2", "a3"]) }
    const group = parent("ebml", "a0", [block, ...(ticks === undefined ? [] : [element("9b", uint(ticks))])])
    if (random.chance(0.3)) group.children?.reverse()
    cluster.children?.splice(cluster.children.indexOf(node), 1, group)
  }
  return `put blocks into groups of ${ticks ?? "no"} ticks`
}

/** Compresses the frames as the track's content encoding states. */
const encodeContents: Edit = ({ random, root }) => {
  const track = random.maybePick(findAll(root, "ae"))
  if (track === undefined) return undefined
  const algorithm = random.pick([0, 3, 3, 1, 2, 9])
  const stripped = random.pick([Buffer.alloc(0), Buffer.from([0xfc]), random.bytes(3)])
  const settings = [element("4254", uint(algorithm)), ...(algorithm === 3 ? [element("4255", stripped)] : [])]
  const encoding = parent("ebml", "6240", [
    element("5031", uint(0)),
    element("5032", uint(random.pick([1, 1, 1, 2, 3]))),
    parent("ebml", "5034", random.chance(0.9) ? settings : []),
  ])
  put(random, track, parent("ebml", "6d80", [encoding]))
  if (algorithm === 0 && random.chance(0.8))
    for (const { node } of blocksOf(root))
      node.body = Buffer.concat([node.body.subarray(0, 4), deflateSync(node.body.subarray(4))])
  return `add content encoding ${algorithm} of ${stripped.toString("hex")}`
}

/** Hides an element in one that readers skip, and states its position in the list of positions, which some readers follow. */
const hideAndSeek: Edit = ({ donors, random, root }) => {
  const segment = random.maybePick(findAll(root, "18538067"))
  const donor = random.pick(donors)
  const name = random.pick(["1654ae6b", "1f43b675", "1549a966", "1c53bb6b", "18538067", "1254c367"])
  const target = random.maybePick(findAll(random.chance(0.7) ? donor.root : root, name))
  if (segment?.children === undefined || target === undefined) return undefined
  const place = `hidden ${name}`
  const hidden: Node = { ...parent("raw", "hidden", [cloned(target)]), place }
  const position = element("53ac", Buffer.alloc(8))
  position.links = [{ at: 0, bytes: 8, place, distance: 0, from: "segment" }]
  const seek = parent("ebml", "4dbb", [element("53ab", Buffer.from(name, "hex")), position])
  if (random.chance(0.5)) {
    const at = segment.children.findIndex((node) => node.name === name)
    if (at >= 0) segment.children.splice(at, 1)
  }
  segment.children.unshift(parent("ebml", "114d9b74", [seek]))
  const cover = random.pick(["ec", "1254c367", "bf", "a3", "1941a469", "20ffff"])
  const into = random.chance(0.6) ? segment : random.pick([root, ...findAll(root, "1f43b675")])
  put(random, into, parent("ebml", cover, [hidden]))
  return `hide ${name} of ${donor.name} in ${cover} in ${into.name} and seek it`
}

/** Puts all clusters of the donor behind, or between, those of the base. */
const graftClusters: Edit = ({ donors, random, root }) => {
  const donor = random.pick(donors)
  const clusters = findAll(donor.root, "1f43b675").map(cloned)
  const segment = random.maybePick(findAll(root, "18538067"))
  if (segment === undefined) return undefined
  if (random.chance(0.4))
    for (const cluster of clusters)
      cluster.size = random.pick([{ kind: "unknown" }, { kind: "wide" }, { kind: "true" }])
  const cover = random.chance(0.3) ? random.pick(ebmlIds) : undefined
  const into = random.chance(0.7) ? segment : pickParent({ random, root })
  put(random, into, ...(cover === undefined ? clusters : [parent("ebml", cover, clusters)]))
  return `put the clusters of ${donor.name}${cover === undefined ? "" : ` in ${cover}`} into ${into.name}`
}

const graftTracks: Edit = ({ donors, random, root }) => {
  const donor = random.pick(donors)
  const tracks = random.maybePick(findAll(donor.root, "1654ae6b"))
  const own = random.maybePick(findAll(root, "1654ae6b"))
  const segment = random.maybePick(findAll(root, "18538067"))
  if (tracks === undefined || own === undefined || segment === undefined) return undefined
  const copy = cloned(tracks)
  if (random.chance(0.4)) renumber(random, copy)
  if (random.chance(0.5)) put(random, own, ...(copy.children ?? []))
  else put(random, random.chance(0.7) ? segment : pickParent({ random, root }), copy)
  return `add the tracks of ${donor.name}`
}

const renumber = (random: Random, tracks: Node): void => {
  for (const number of findAll(tracks, "d7")) number.body = uint(random.pick([1, 2, 3]))
}

/** Changes the limits that the header states for identifiers and sizes. */
const changeHeader: Edit = ({ random, root }) => {
  const header = random.maybePick(findAll(root, "1a45dfa3"))
  if (header === undefined) return undefined
  const id = random.pick(["42f2", "42f3", "4286", "42f7", "4287", "4285"])
  const value = random.pick([0, 1, 2, 4, 8, 9, 255])
  for (const limit of findAll(header, id)) limit.body = uint(value)
  if (findAll(header, id).length === 0) put(random, header, element(id, uint(value)))
  return `state ${value} in ${id} of the header`
}

export const webmEdits: ReadonlyArray<Edit> = weighted(
  [renumberBlocks, 2],
  [renumberTrack, 1],
  [addStrays, 4],
  [interrupt, 3],
  [changeCodec, 2],
  [changeType, 1],
  [relace, 2],
  [groupBlocks, 1],
  [encodeContents, 1],
  [hideAndSeek, 2],
  [graftClusters, 3],
  [graftTracks, 2],
  [changeHeader, 1],
)
