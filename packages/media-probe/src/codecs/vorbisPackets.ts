/** The block sizes of one Vorbis stream, which determine the duration of its packets. */
export interface VorbisModes {
  readonly sampleRate: number
  /** Number of samples of short and of long blocks. */
  readonly blocks: readonly [number, number]
  /** Whether blocks are long, by mode. */
  readonly isLong: ReadonlyArray<boolean>
}

/** Reads the three header packets, which WebM stores as one with Xiph lacing. */
export const readVorbisModes = (codecPrivate: Uint8Array): VorbisModes | undefined => {
  if (codecPrivate[0] !== 2) return undefined
  const sizes: Array<number> = []
  let at = 1
  for (let packet = 0; packet < 2; packet++) {
    let size = 0
    for (; codecPrivate[at] === 255; at++) size += 255
    sizes.push(size + (codecPrivate[at++] ?? 0))
  }
  const [identificationBytes = 0, commentBytes = 0] = sizes
  const identification = codecPrivate.subarray(at, at + identificationBytes)
  const setup = codecPrivate.subarray(at + identificationBytes + commentBytes)
  if (identification.length < 30 || identification[0] !== 1 || setup[0] !== 5) return undefined
  const view = new DataView(identification.buffer, identification.byteOffset, identification.length)
  const sampleRate = view.getUint32(12, true)
  const blockBits = view.getUint8(28)
  const isLong = readModes(setup)
  if (sampleRate < 1 || sampleRate > 768_000 || isLong === undefined) return undefined
  return { sampleRate, blocks: [2 ** (blockBits & 15), 2 ** (blockBits >> 4)], isLong }
}

/**
 * Reads the modes at the end of the setup. Only a decoder can parse the tables before them, so this reads backward from
 * the framing bit, while the bits look like modes and until their count matches the preceding field.
 */
const readModes = (setup: Uint8Array): ReadonlyArray<boolean> | undefined => {
  const total = setup.length * 8
  const bit = (index: number): number => ((setup[setup.length - 1 - (index >> 3)] ?? 0) >> (7 - (index & 7))) & 1
  const bits = (from: number, count: number): number => {
    let value = 0
    for (let i = from; i < from + count; i++) value = value * 2 + bit(i)
    return value
  }
  let at = 0
  while (at < total && bit(at) === 0) at++
  at++
  const found: Array<boolean> = []
  let count = 0
  // A mode, from its end: 8 bits of mapping, 16 of transform, 16 of window, 1 for the block size.
  while (total - at >= 97 && found.length < 64) {
    if (bits(at, 8) > 63 || bits(at + 8, 32) !== 0) break
    found.push(bit(at + 40) === 1)
    at += 41
    if (bits(at, 6) + 1 === found.length) count = found.length
  }
  return count === 0 ? undefined : found.slice(0, count).toReversed()
}

/** Returns 0 for a short and 1 for a long block, by the first byte of the packet; `undefined` if it is not an audio packet. */
export const blockOf = (modes: VorbisModes, firstByte: number): 0 | 1 | undefined => {
  if (firstByte & 1) return undefined
  const modeBits = modes.isLong.length === 1 ? 0 : 32 - Math.clz32(modes.isLong.length - 1)
  const isLong = modes.isLong[(firstByte >> 1) & ((1 << modeBits) - 1)]
  return isLong === undefined ? undefined : isLong ? 1 : 0
}
