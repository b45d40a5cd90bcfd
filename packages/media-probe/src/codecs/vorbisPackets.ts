import { startsWith } from "@kiln/core/media"
import { readVorbisSetup } from "./vorbisSetup.ts"

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
  if (identification.length < 30 || !startsWith(identification, 0, "\x01vorbis")) return undefined
  const view = new DataView(identification.buffer, identification.byteOffset, identification.length)
  const channels = view.getUint8(11)
  const sampleRate = view.getUint32(12, true)
  const [short, long] = [view.getUint8(28) & 15, view.getUint8(28) >> 4]
  const isValid = channels >= 1 && sampleRate >= 1 && sampleRate <= 768_000 && (view.getUint8(29) & 1) === 1
  if (!isValid || short < 6 || long > 13 || long < short) return undefined
  const isLong = readVorbisSetup(setup, channels)
  return isLong && { sampleRate, blocks: [2 ** short, 2 ** long], isLong }
}

/** Returns 0 for a short and 1 for a long block, by the first byte of the packet; `undefined` if it is not an audio packet. */
export const blockOf = (modes: VorbisModes, firstByte: number): 0 | 1 | undefined => {
  if (firstByte & 1) return undefined
  const modeBits = modes.isLong.length === 1 ? 0 : 32 - Math.clz32(modes.isLong.length - 1)
  const isLong = modes.isLong[(firstByte >> 1) & ((1 << modeBits) - 1)]
  return isLong === undefined ? undefined : isLong ? 1 : 0
}
