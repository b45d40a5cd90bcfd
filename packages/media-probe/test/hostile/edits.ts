import {
  cloned,
  findAll,
  leaf,
  type Node,
  parent,
  render,
  type Size,
  type Spot,
  type Syntax,
  spotsBelow,
} from "./nodes.ts"
import { foreignNode, type HostileFormat, type Material, type Materials } from "./materials.ts"
import type { Random } from "./random.ts"
import { boxNames, chunkNames, ebmlIds, numbers } from "./vocabulary.ts"

/** A file under construction, and the files that it may take parts from. */
export interface Workshop {
  readonly random: Random
  readonly format: HostileFormat
  /** The base, which edits change in place. */
  readonly root: Node
  /** A short and a long file of the same format. */
  readonly donors: ReadonlyArray<Material>
  readonly foreign: Materials["foreign"]
}

/** Changes the file, and describes the change; returns `undefined` if it does not apply. */
export type Edit = (workshop: Workshop) => string | undefined

/** Returns a random element, each name with the same probability, so that the many blocks of a file do not hide the rest. */
export const pickSpot = (random: Random, root: Node, allow: (spot: Spot) => boolean = () => true): Spot | undefined => {
  const byName = new Map<string, Array<Spot>>()
  for (const spot of spotsBelow(root)) {
    if (!allow(spot)) continue
    const same = byName.get(spot.node.name)
    if (same) same.push(spot)
    else byName.set(spot.node.name, [spot])
  }
  return random.maybePick(random.maybePick([...byName.values()]) ?? [])
}

const isParent = ({ node }: Spot): boolean => node.children !== undefined

/** Returns a random element that holds elements; the file itself is one. */
export const pickParent = ({ random, root }: Pick<Workshop, "random" | "root">): Node =>
  random.chance(0.15) ? root : (pickSpot(random, root, isParent)?.node ?? root)

export const put = (random: Random, into: Node, ...nodes: ReadonlyArray<Node>): void => {
  const children = into.children
  if (children === undefined) return
  const place = random.below(4)
  const at = place === 0 ? 0 : place === 1 ? random.below(children.length + 1) : children.length
  children.splice(at, 0, ...nodes)
}

const removeFrom = (parentNode: Node, node: Node): void => {
  const at = parentNode.children?.indexOf(node) ?? -1
  if (at >= 0) parentNode.children?.splice(at, 1)
}

const replaceIn = (parentNode: Node, node: Node, ...others: ReadonlyArray<Node>): void => {
  const at = parentNode.children?.indexOf(node) ?? -1
  if (at >= 0) parentNode.children?.splice(at, 1, ...others)
}

const contains = (node: Node, other: Node): boolean =>
  node === other || (node.children?.some((child) => contains(child, other)) ?? false)

/** Returns a random name for an element of this syntax. */
const anyName = (random: Random, syntax: Syntax): string => {
  switch (syntax) {
    case "box":
      return random.pick(boxNames)
    case "ebml":
      return random.pick(ebmlIds)
    case "riff":
      return random.pick(chunkNames)
    case "raw":
      return "raw"
  }
}

const syntaxes: Readonly<Record<HostileFormat, Syntax>> = { mp4: "box", webm: "ebml", wav: "riff", mp3: "raw" }

const syntaxOf = ({ format }: Pick<Workshop, "format">): Syntax => syntaxes[format]

const label = ({ name, syntax }: Node): string => (syntax === "raw" ? `"${name}"` : name)

const move: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root)
  if (spot === undefined) return undefined
  const into = pickParent({ random, root })
  if (contains(spot.node, into)) return undefined
  removeFrom(spot.parent, spot.node)
  put(random, into, spot.node)
  return `move ${label(spot.node)} from ${label(spot.parent)} into ${label(into)}`
}

const duplicate: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root)
  if (spot === undefined) return undefined
  const into = random.chance(0.5) ? spot.parent : pickParent({ random, root })
  if (contains(spot.node, into)) return undefined
  const copies = Array.from({ length: random.chance(0.2) ? random.between(2, 30) : 1 }, () => cloned(spot.node))
  put(random, into, ...copies)
  return `copy ${label(spot.node)} ${copies.length} times into ${label(into)}`
}

const remove: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root)
  if (spot === undefined) return undefined
  removeFrom(spot.parent, spot.node)
  return `remove ${label(spot.node)} from ${label(spot.parent)}`
}

const rename: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root, ({ node }) => node.syntax !== "raw")
  if (spot === undefined) return undefined
  const before = label(spot.node)
  spot.node.name = anyName(random, spot.node.syntax)
  return `rename ${before} to ${label(spot.node)}`
}

const anySize = (random: Random, bytes: number): Size =>
  random.pick<() => Size>([
    () => ({ kind: "unknown" }),
    () => ({ kind: "wide" }),
    () => ({
      kind: "off",
      by: random.pick([-16, -9, -8, -7, -4, -2, -1, 1, 2, 4, 7, 8, 9, 12, 16, 64, 1000, 1_000_000]),
    }),
    () => ({ kind: "off", by: random.between(-bytes, bytes) }),
    () => ({ kind: "stated", value: random.pick(numbers) }),
    () => ({ kind: "stated", value: random.pick([...numbers, 2 ** 32, 2 ** 53, 2 ** 62, 2 ** 63]), isWide: true }),
  ])()

const resize: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root, ({ node }) => node.syntax !== "raw")
  if (spot === undefined) return undefined
  spot.node.size = anySize(random, render({ ...cloned(spot.node), size: { kind: "true" } }).length)
  return `resize ${label(spot.node)}: ${JSON.stringify(spot.node.size)}`
}

/** Versions and flags are the first bytes of most boxes. */
const reversion: Edit = ({ random, root }) => {
  const spot = pickSpot(
    random,
    root,
    ({ node }) => node.syntax !== "raw" && (node.head.length > 0 || node.body.length > 0),
  )
  if (spot === undefined) return undefined
  const field = spot.node.head.length > 0 ? "head" : "body"
  const bytes = Buffer.from(spot.node[field])
  const at = Math.min(bytes.length - 1, random.chance(0.6) ? 0 : random.below(4))
  bytes[at] = random.chance(0.7) ? random.below(4) : random.below(256)
  spot.node[field] = bytes
  return `set byte ${at} of ${label(spot.node)} to ${bytes[at]}`
}

const shuffle: Edit = ({ random, root }) => {
  const into = pickParent({ random, root })
  const children = into.children
  if (children === undefined || children.length < 2) return undefined
  if (random.chance(0.4)) children.reverse()
  else for (let i = children.length - 1; i > 0; i--) swap(children, i, random.below(i + 1))
  return `reorder the elements of ${label(into)}`
}

const swap = <A>(list: Array<A>, one: number, other: number): void => {
  const first = list[one]
  const second = list[other]
  if (first === undefined || second === undefined) return
  list[one] = second
  list[other] = first
}

/** Exchanges two elements of the same name, such as the tables of two tracks. */
const exchange: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root)
  if (spot === undefined) return undefined
  const others = spotsBelow(root).filter(({ node }) => node.name === spot.node.name && node !== spot.node)
  const other = random.maybePick(others)
  if (other === undefined || contains(spot.node, other.node) || contains(other.node, spot.node)) return undefined
  const copy = cloned(other.node)
  replaceIn(other.parent, other.node, cloned(spot.node))
  replaceIn(spot.parent, spot.node, copy)
  return `exchange two ${label(spot.node)}`
}

const wrap: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root)
  if (spot === undefined) return undefined
  const syntax = spot.node.syntax
  if (syntax === "raw") return undefined
  const wrapper = parent(syntax, anyName(random, syntax), [spot.node], wrapperHead(random, syntax))
  replaceIn(spot.parent, spot.node, wrapper)
  return `wrap ${label(spot.node)} in ${label(wrapper)}`
}

const wrapperHead = (random: Random, syntax: Syntax): Buffer =>
  syntax === "box" && random.chance(0.2) ? Buffer.alloc(random.pick([4, 8])) : Buffer.alloc(0)

const unwrap: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root, isParent)
  if (spot === undefined) return undefined
  replaceIn(spot.parent, spot.node, ...(spot.node.children ?? []))
  return `replace ${label(spot.node)} by its elements`
}

/** Takes an element of the donor and puts it anywhere, often inside a container that readers treat differently. */
const graft: Edit = ({ donors, random, root }) => {
  const donor = random.pick(donors)
  const spot = pickSpot(random, donor.root)
  if (spot === undefined) return undefined
  const copy = cloned(spot.node)
  if (random.chance(0.4)) {
    const same = random.maybePick(spotsBelow(root).filter(({ node }) => node.name === copy.name))
    if (same === undefined) return undefined
    replaceIn(same.parent, same.node, copy)
    return `replace ${label(same.node)} by that of ${donor.name}`
  }
  const like = random.maybePick(spotsBelow(root).filter(({ node }) => node.name === spot.parent.name))
  const into = like !== undefined && random.chance(0.5) ? like.node : pickParent({ random, root })
  const isWrapped = copy.syntax !== "raw" && random.chance(0.4)
  const node = isWrapped
    ? parent(copy.syntax, anyName(random, copy.syntax), [copy], wrapperHead(random, copy.syntax))
    : copy
  put(random, into, node)
  return `put ${label(copy)} of ${donor.name}${isWrapped ? ` in ${label(node)}` : ""} into ${label(into)}`
}

/** Puts all elements of a container of the donor, such as the tables of a track, into a wrapper. */
const graftAll: Edit = ({ donors, random, root }) => {
  const donor = random.pick(donors)
  const spot = pickSpot(random, donor.root, isParent)
  if (spot === undefined || spot.node.syntax === "raw") return undefined
  const copies = (spot.node.children ?? []).map(cloned).filter(() => random.chance(0.85))
  const like = random.maybePick(spotsBelow(root).filter(({ node }) => node.name === spot.node.name))
  const into = like !== undefined && random.chance(0.7) ? like.node : pickParent({ random, root })
  const { syntax } = spot.node
  const wrapper = random.chance(0.75)
    ? parent(syntax, anyName(random, syntax), copies, wrapperHead(random, syntax))
    : undefined
  put(random, into, ...(wrapper ? [wrapper] : copies))
  return `put the elements of ${label(spot.node)} of ${donor.name}${wrapper ? ` in ${label(wrapper)}` : ""} into ${label(into)}`
}

/** Puts a whole file, of this or another format, somewhere. */
const nest: Edit = (workshop) => {
  const { donors, random, root } = workshop
  const donor = random.pick(donors)
  const isForeign = random.chance(0.3)
  const inner = isForeign ? foreignNode(random.pick(workshop.foreign)) : cloned(donor.root)
  const syntax = syntaxOf(workshop)
  const isWrapped = syntax !== "raw" && random.chance(0.7)
  const node = isWrapped ? parent(syntax, anyName(random, syntax), [inner]) : inner
  const into = random.chance(0.3) ? root : pickParent({ random, root })
  put(random, into, node)
  return `nest ${isForeign ? inner.name : donor.name}${isWrapped ? ` in ${label(node)}` : ""} in ${label(into)}`
}

/** Puts another format before, behind or between the elements of the file. */
const addForeign: Edit = ({ foreign, format, random, root }) => {
  const other = foreignNode(random.pick(foreign))
  const children = root.children ?? []
  const place = random.below(4)
  if (place === 0) {
    // Only behind a tag does a file with another beginning pass as MP3.
    const at = format === "mp3" && children[0]?.name === "ID3" ? 1 : 0
    children.splice(at, 0, other)
    return `put ${other.name} in front`
  }
  if (place === 1) {
    children.push(other)
    return `put ${other.name} at the end`
  }
  if (place === 2) {
    const pieces = random.between(2, 12)
    const bytes = Math.ceil(other.body.length / pieces)
    for (let i = 0; i < pieces; i++)
      children.splice(
        Math.min(children.length, 1 + 2 * i),
        0,
        leaf("raw", other.name, other.body.subarray(i * bytes, (i + 1) * bytes)),
      )
    return `interleave ${pieces} pieces of ${other.name}`
  }
  put(random, pickParent({ random, root }), other)
  return `put ${other.name} somewhere`
}

/** Replaces the payload of a large element by another format. */
const replaceByForeign: Edit = ({ foreign, random, root }) => {
  const spot = pickSpot(random, root, ({ node }) => node.body.length > 1000)
  if (spot === undefined) return undefined
  const other = random.pick(foreign)
  const keeps = random.chance(0.3) ? random.below(64) : 0
  spot.node.body = Buffer.concat([spot.node.body.subarray(0, keeps), other.bytes])
  spot.node.links = []
  return `replace the content of ${label(spot.node)} by ${other.name}, behind ${keeps} bytes`
}

const overwrite: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root, ({ node }) => node.body.length > 0 || node.head.length > 0)
  if (spot === undefined) return undefined
  const field = spot.node.head.length > 0 && (spot.node.body.length === 0 || random.chance(0.3)) ? "head" : "body"
  const bytes = Buffer.from(spot.node[field])
  const width = random.pick([1, 2, 4, 8])
  const at = random.below(Math.min(64, Math.ceil(bytes.length / width))) * width
  if (at + width > bytes.length) return undefined
  const value = random.chance(0.8) ? random.pick(numbers) : random.word()
  const number = Buffer.alloc(8)
  if (random.chance(0.3)) number.writeBigUInt64LE(BigInt(value))
  else number.writeBigUInt64BE((BigInt(value) << BigInt(64 - 8 * width)) & 0xffff_ffff_ffff_ffffn)
  number.copy(bytes, at, 0, width)
  spot.node[field] = bytes
  if (field === "body")
    spot.node.links = spot.node.links.filter((link) => link.at >= at + width || link.at + link.bytes <= at)
  return `write ${value} in ${width} bytes at ${at} of the ${field} of ${label(spot.node)}`
}

const cut: Edit = ({ random, root }) => {
  const spot = pickSpot(random, root, ({ node }) => node.body.length > 1)
  if (spot === undefined) return undefined
  const { body } = spot.node
  const bytes = random.chance(0.5) ? random.between(1, Math.min(16, body.length)) : random.below(body.length)
  const isFront = random.chance(0.3)
  spot.node.body = isFront ? body.subarray(bytes) : body.subarray(0, body.length - bytes)
  spot.node.links = isFront ? [] : spot.node.links.filter((link) => link.at + link.bytes <= spot.node.body.length)
  return `cut ${bytes} bytes from the ${isFront ? "front" : "end"} of ${label(spot.node)}`
}

const pad: Edit = ({ random, root }) => {
  const into = pickParent({ random, root })
  const bytes = random.chance(0.7) ? random.between(1, 16) : random.pick([100, 1000, 9000, 70_000])
  const filler = random.pick([() => Buffer.alloc(bytes), () => Buffer.alloc(bytes, 0xff), () => random.bytes(bytes)])()
  put(random, into, leaf("raw", "padding", filler))
  return `put ${bytes} bytes into ${label(into)}`
}

/** Truncates the file, so that elements end after it. */
const truncate: Edit = ({ random, root }) => {
  const children = root.children
  const bytes = render(root)
  if (children === undefined || bytes.length < 100) return undefined
  const kept = bytes.length - (random.chance(0.5) ? random.between(1, 32) : random.below(bytes.length >> 1))
  children.splice(0, children.length, leaf("raw", "file", bytes.subarray(0, kept)))
  return `truncate to ${kept} bytes`
}

/** Returns each edit as often as it should be chosen. */
export const weighted = (...edits: ReadonlyArray<readonly [edit: Edit, weight: number]>): ReadonlyArray<Edit> =>
  edits.flatMap(([edit, weight]) => Array.from({ length: weight }, () => edit))

/** Edits that apply to every format. */
export const generalEdits: ReadonlyArray<Edit> = weighted(
  [move, 2],
  [duplicate, 2],
  [remove, 1],
  [rename, 2],
  [resize, 3],
  [reversion, 1],
  [shuffle, 1],
  [exchange, 2],
  [wrap, 2],
  [unwrap, 1],
  [graft, 3],
  [graftAll, 2],
  [nest, 2],
  [addForeign, 2],
  [replaceByForeign, 1],
  [overwrite, 3],
  [cut, 1],
  [pad, 2],
  [truncate, 1],
)

/** Adds the media that tables refer to and the file lacks. */
export const addMissingMedia = (root: Node, donors: ReadonlyArray<Material>): void => {
  const spots = spotsBelow(root)
  const present = new Set(spots.map(({ node }) => node.place))
  const wanted = new Set(spots.flatMap(({ node }) => node.links.map(({ place }) => place)))
  for (const place of wanted) {
    if (present.has(place)) continue
    const media = donors.flatMap((donor) => findAll(donor.root, "mdat")).find((node) => node.place === place)
    if (media) root.children?.push(cloned(media))
  }
}
