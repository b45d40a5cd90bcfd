/** The way in which an element states its size. */
export type Size =
  | { readonly kind: "true" }
  /** The true size in the widest field: 64 bits for boxes, eight bytes for EBML elements. */
  | { readonly kind: "wide" }
  /** A size that is wrong by some bytes. */
  | { readonly kind: "off"; readonly by: number }
  | { readonly kind: "stated"; readonly value: number; readonly isWide?: boolean }
  /** The placeholder for a size that a live writer does not know. */
  | { readonly kind: "unknown" }

/** The form of an element's header. A `raw` node has none. */
export type Syntax = "box" | "ebml" | "riff" | "raw"

/** A number in a table that is the position of media, kept as a distance so that it stays right when the media moves. */
export interface Link {
  /** Offset in the body. */
  readonly at: number
  readonly bytes: 4 | 8
  /** The media the position lies in, and the distance from its first byte. */
  readonly place: string
  readonly distance: number
  /** Where positions count from: the file's beginning, the enclosing `moof`, or the content of the enclosing segment. */
  readonly from: "file" | "moof" | "segment"
}

/** An element of a file. Its content is `head`, then either `children` or `body`. */
export interface Node {
  syntax: Syntax
  /** The four characters of a box or a chunk, the id of an EBML element in hexadecimal digits, or a name for the report. */
  name: string
  size: Size
  head: Buffer
  children: Array<Node> | undefined
  body: Buffer
  links: ReadonlyArray<Link>
  /** The name under which links find this node's body. */
  place: string | undefined
}

const trueSize: Size = { kind: "true" }
const noBytes: Buffer = Buffer.alloc(0)

export const leaf = (syntax: Syntax, name: string, body: Buffer): Node => ({
  syntax,
  name,
  size: trueSize,
  head: noBytes,
  children: undefined,
  body,
  links: [],
  place: undefined,
})

export const parent = (syntax: Syntax, name: string, children: ReadonlyArray<Node>, head: Buffer = noBytes): Node => ({
  ...leaf(syntax, name, noBytes),
  head,
  children: [...children],
})

/** Returns a copy that can be edited independently. Bodies are shared; an edit replaces them. */
export const cloned = (node: Node): Node => ({ ...node, children: node.children?.map(cloned) })

/** A node with its parent. */
export interface Spot {
  readonly node: Node
  readonly parent: Node
}

/** Returns all nodes below a root, in file order. */
export const spotsBelow = (root: Node): Array<Spot> => {
  const spots: Array<Spot> = []
  const visit = (node: Node): void => {
    for (const child of node.children ?? []) {
      spots.push({ node: child, parent: node })
      visit(child)
    }
  }
  visit(root)
  return spots
}

export const findAll = (root: Node, name: string): Array<Node> =>
  spotsBelow(root)
    .filter(({ node }) => node.name === name)
    .map(({ node }) => node)

interface Rendered {
  readonly bytes: Buffer
  readonly patches: Array<{ readonly at: number; readonly link: Link; readonly originAt: number | undefined }>
  readonly places: Map<string, number>
}

/** Writes a tree as a file. */
export const render = (root: Node): Buffer => {
  const { bytes, patches, places } = renderNode(root)
  for (const { at, link, originAt } of patches) {
    const place = places.get(link.place)
    if (place === undefined || at + link.bytes > bytes.length) continue
    const value = place + link.distance - (originAt ?? 0)
    if (link.bytes === 4) bytes.writeInt32BE(value | 0, at)
    else bytes.writeBigInt64BE(BigInt(value), at)
  }
  return bytes
}

const renderNode = (node: Node): Rendered => {
  const parts = node.children?.map(renderNode) ?? []
  const body = node.children === undefined ? node.body : Buffer.concat(parts.map(({ bytes }) => bytes))
  const header = headerOf(node, node.head.length + body.length)
  const padding = node.syntax === "riff" && (node.head.length + body.length) % 2 === 1 ? Buffer.alloc(1) : noBytes
  const bodyAt = header.length + node.head.length
  const patches: Rendered["patches"] = node.links.map((link) => ({ at: bodyAt + link.at, link, originAt: undefined }))
  const places: Rendered["places"] = new Map(node.place === undefined ? [] : [[node.place, bodyAt]])
  let at = bodyAt
  for (const part of parts) {
    for (const { originAt, ...patch } of part.patches)
      patches.push({ ...patch, at: patch.at + at, originAt: originAt === undefined ? undefined : originAt + at })
    for (const [place, offset] of part.places) if (!places.has(place)) places.set(place, offset + at)
    at += part.bytes.length
  }
  const origin = node.name === "moof" ? "moof" : node.name === SEGMENT ? "segment" : undefined
  return {
    bytes: Buffer.concat([header, node.head, body, padding]),
    patches: patches.map((patch) =>
      patch.link.from === origin && patch.originAt === undefined
        ? { ...patch, originAt: origin === "moof" ? 0 : bodyAt }
        : patch,
    ),
    places,
  }
}

const SEGMENT = "18538067"

const headerOf = ({ name, size, syntax }: Node, bytes: number): Buffer => {
  switch (syntax) {
    case "raw":
      return noBytes
    case "box":
      return boxHeader(name, size, bytes)
    case "riff": {
      const header = Buffer.alloc(8)
      header.write(name.padEnd(4).slice(0, 4), "latin1")
      header.writeUInt32LE(clamped(size.kind === "unknown" ? 0xffff_ffff : statedSize(size, bytes, 0), 0xffff_ffff), 4)
      return header
    }
    case "ebml":
      return Buffer.concat([Buffer.from(name, "hex"), ebmlSize(size, bytes)])
  }
}

const clamped = (value: number, most: number): number => Math.max(0, Math.min(most, value))

/** Returns the number for the size field, in a syntax that counts `own` bytes of the header too. */
const statedSize = (size: Size, bytes: number, own: number): number => {
  if (size.kind === "stated") return size.value
  return bytes + own + (size.kind === "off" ? size.by : 0)
}

const boxHeader = (name: string, size: Size, bytes: number): Buffer => {
  const isWide = size.kind === "wide" || (size.kind === "stated" && size.isWide === true)
  const header = Buffer.alloc(isWide ? 16 : 8)
  header.write(name.padEnd(4).slice(0, 4), 4, "latin1")
  if (isWide) {
    header.writeUInt32BE(1)
    header.writeBigUInt64BE(BigInt(clamped(statedSize(size, bytes, 16), 2 ** 63)), 8)
  } else header.writeUInt32BE(size.kind === "unknown" ? 0 : clamped(statedSize(size, bytes, 8), 0xffff_ffff))
  return header
}

const ebmlSize = (size: Size, bytes: number): Buffer => {
  if (size.kind === "unknown") return Buffer.from([1, 255, 255, 255, 255, 255, 255, 255])
  const value = clamped(statedSize(size, bytes, 0), 2 ** 53)
  const isWide = size.kind === "wide" || (size.kind === "stated" && size.isWide === true)
  let width = isWide ? 8 : 1
  while (width < 8 && value >= 2 ** (7 * width) - 1) width++
  const field = Buffer.alloc(8)
  field.writeBigUInt64BE(BigInt(value) | (1n << BigInt(7 * width)))
  return field.subarray(8 - width)
}
