import { startsWith } from "@kiln/core/media"

/** Entries of a codebook, at most; decoders accept no more. */
const MAX_ENTRIES = 65_536

/** Thrown for a setup that decoders refuse. */
class InvalidSetup extends Error {}

/** Reads bits as Vorbis packs them, the lowest bit of each byte first. */
interface Bits {
  /** Reads a number of up to 32 bits. */
  readonly read: (count: number) => number
}

/**
 * Reads the setup header of Vorbis up to its modes. Returns whether blocks are long, by mode; `undefined` for a setup that decoders
 * refuse. The sizes of all tables must be known to find the modes behind them; their values do not matter.
 */
export const readVorbisSetup = (setup: Uint8Array, channels: number): ReadonlyArray<boolean> | undefined => {
  if (!startsWith(setup, 0, "\x05vorbis")) return undefined
  const bits = bitsFrom(setup, 7)
  try {
    const books = listOf(bits.read(8) + 1, () => skipCodebook(bits)).length
    listOf(bits.read(6) + 1, () => check(bits.read(16) === 0))
    const floors = listOf(bits.read(6) + 1, () => skipFloor(bits, books)).length
    const residues = listOf(bits.read(6) + 1, () => skipResidue(bits, books)).length
    const mappings = listOf(bits.read(6) + 1, () => skipMapping(bits, channels, floors, residues)).length
    const isLong = listOf(bits.read(6) + 1, () => {
      const flag = bits.read(1)
      // The types of window and transform, which decoders ignore.
      bits.read(32)
      check(bits.read(8) < mappings)
      return flag === 1
    })
    check(bits.read(1) === 1)
    return isLong
  } catch (cause) {
    if (cause instanceof InvalidSetup) return undefined
    throw cause
  }
}

const check = (isValid: boolean): void => {
  if (!isValid) throw new InvalidSetup()
}

const listOf = <A>(count: number, read: () => A): ReadonlyArray<A> => Array.from({ length: count }, read)

const bitsFrom = (data: Uint8Array, byte: number): Bits => {
  let at = byte * 8
  return {
    read: (count) => {
      check(at + count <= data.length * 8)
      let value = 0
      for (let done = 0; done < count;) {
        const part = Math.min(count - done, 8 - (at & 7))
        value += (((data[at >> 3] ?? 0) >> (at & 7)) & ((1 << part) - 1)) * 2 ** done
        at += part
        done += part
      }
      return value
    },
  }
}

/** Number of bits of a value. */
const widthOf = (value: number): number => 32 - Math.clz32(value)

const skipCodebook = (bits: Bits): void => {
  check(bits.read(24) === 0x564342)
  const dimensions = bits.read(16)
  const entries = bits.read(24)
  check(dimensions >= 1 && dimensions <= 16 && entries <= MAX_ENTRIES)
  if (bits.read(1) === 1) skipOrderedLengths(bits, entries)
  else {
    const isSparse = bits.read(1) === 1
    for (let entry = 0; entry < entries; entry++) if (!isSparse || bits.read(1) === 1) bits.read(5)
  }
  const lookup = bits.read(4)
  check(lookup <= 2)
  if (lookup === 0) return
  bits.read(32)
  bits.read(32)
  const width = bits.read(4) + 1
  bits.read(1)
  const values = lookup === 1 ? rootOf(entries, dimensions) : entries * dimensions
  for (let value = 0; value < values; value++) bits.read(width)
}

const skipOrderedLengths = (bits: Bits, entries: number): void => {
  let length = bits.read(5) + 1
  for (let entry = 0; entry < entries && length <= 32; length++) {
    entry += bits.read(widthOf(entries - entry))
    check(entry <= entries)
  }
}

/** Returns the largest integer whose power is not more than a number. */
const rootOf = (value: number, power: number): number => {
  let root = 0
  while ((root + 1) ** power <= value) root++
  return root
}

const skipFloor = (bits: Bits, books: number): void => {
  const type = bits.read(16)
  check(type <= 1)
  if (type === 1) return skipFloor1(bits, books)
  const [order, rate, barkSize] = [bits.read(8), bits.read(16), bits.read(16)]
  check(order > 0 && rate > 0 && barkSize > 0)
  bits.read(6 + 8)
  listOf(bits.read(4) + 1, () => check(bits.read(8) < books))
}

const skipFloor1 = (bits: Bits, books: number): void => {
  const classes = listOf(bits.read(5), () => bits.read(4))
  const dimensions = listOf(Math.max(-1, ...classes) + 1, () => {
    const values = bits.read(3) + 1
    const subclassBits = bits.read(2)
    if (subclassBits > 0) check(bits.read(8) < books)
    listOf(2 ** subclassBits, () => check(bits.read(8) <= books))
    return values
  })
  bits.read(2)
  const width = bits.read(4)
  for (const index of classes) listOf(dimensions[index] ?? 0, () => bits.read(width))
}

const skipResidue = (bits: Bits, books: number): void => {
  bits.read(16)
  const [begin, end] = [bits.read(24), bits.read(24)]
  check(begin <= end)
  bits.read(24)
  const classifications = bits.read(6) + 1
  check(bits.read(8) < books)
  const cascades = listOf(classifications, () => {
    const low = bits.read(3)
    return bits.read(1) === 1 ? bits.read(5) * 8 + low : low
  })
  for (const cascade of cascades)
    for (let pass = 0; pass < 8; pass++) if (((cascade >> pass) & 1) === 1) check(bits.read(8) < books)
}

const skipMapping = (bits: Bits, channels: number, floors: number, residues: number): void => {
  check(bits.read(16) === 0)
  const submaps = bits.read(1) === 1 ? bits.read(4) + 1 : 1
  if (bits.read(1) === 1) {
    check(channels >= 2)
    const width = widthOf(channels - 1)
    for (let channel = 2 * (bits.read(8) + 1); channel > 0; channel--) check(bits.read(width) < channels)
  }
  check(bits.read(2) === 0)
  if (submaps > 1) listOf(channels, () => bits.read(4))
  listOf(submaps, () => {
    // A placeholder that decoders ignore.
    bits.read(8)
    check(bits.read(8) < floors)
    check(bits.read(8) < residues)
  })
}
