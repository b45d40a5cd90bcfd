// Sync words of AC-3 and E-AC-3, in both byte orders.
const AC3 = 0x0b77
const AC3_SWAPPED = 0x770b

// 32-bit sync words of DTS (in its four encodings) and of IEC 61937 bursts.
const words = new Set([0x7ffe8001, 0xfe7f0180, 0x1fffe800, 0xff1f00e8, 0x72f81f4e, 0xf8724e1f].map((word) => word | 0))

/** Number of sync words that rules out coincidence. */
const MAX_WORDS = 3
const MAX_CHAIN = 4

const ac3Kbps = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640]

/**
 * Detects compressed frames in a file that claims to hold raw samples. Decoders trust the bytes rather than the header,
 * and play the frames: an hour of them may fit into seconds of samples.
 */
export class RawDisguise {
  #tail = new Uint8Array(0)
  #position = 0
  #wordsSeen = 0
  /** Sequences of AC-3 frames: the length so far by the offset where the next frame must begin. */
  readonly #expected = new Map<number, number>()
  #longestChain = 0

  get isFound(): boolean {
    return this.#wordsSeen >= MAX_WORDS || this.#longestChain >= MAX_CHAIN
  }

  /** Examines the next bytes. */
  see(slice: Uint8Array): void {
    const bytes = new Uint8Array(this.#tail.length + slice.length)
    bytes.set(this.#tail)
    bytes.set(slice, this.#tail.length)
    const end = bytes.length - 7
    let word = end > 0 ? ((bytes[0] ?? 0) << 16) | ((bytes[1] ?? 0) << 8) | (bytes[2] ?? 0) : 0
    for (let i = 0; i < end; i++) {
      word = (word << 8) | (bytes[i + 3] ?? 0)
      const sync = word >>> 16
      if (sync === AC3 || sync === AC3_SWAPPED) this.#follow(bytes, i, sync === AC3 ? 0 : 1)
      else if (words.has(word)) this.#wordsSeen++
    }
    const seen = Math.max(0, end)
    this.#tail = bytes.slice(seen)
    this.#position += seen
  }

  #follow(bytes: Uint8Array, at: number, swapped: 0 | 1): void {
    const frameBytes = ac3FrameBytes((offset) => bytes[at + (offset ^ swapped)] ?? 0)
    if (frameBytes === undefined) return
    const position = this.#position + at
    const chain = (this.#expected.get(position) ?? 0) + 1
    this.#longestChain = Math.max(this.#longestChain, chain)
    for (const expected of this.#expected.keys()) if (expected <= position) this.#expected.delete(expected)
    if (this.#expected.size < 64) this.#expected.set(position + frameBytes, chain)
  }
}

const ac3FrameBytes = (byte: (offset: number) => number): number | undefined => {
  const isEnhanced = byte(5) >> 3 > 10
  if (isEnhanced) return (((byte(2) & 7) << 8) + byte(3) + 1) * 2
  const code = byte(4) & 0x3f
  const kbps = ac3Kbps[code >> 1]
  if (kbps === undefined) return undefined
  const rate = byte(4) >> 6
  if (rate === 0) return kbps * 4
  if (rate === 2) return kbps * 6
  return rate === 1 ? (Math.floor((320 * kbps) / 147) + (code & 1)) * 2 : undefined
}
