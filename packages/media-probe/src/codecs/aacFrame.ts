import { viewOf } from "@kiln/core/media"
import { type Bands, bandsOf, scaleFactorBook, spectralBooks } from "./aacBooks.ts"

/** A stream of AAC, as its configuration describes it. */
export interface AacStream {
  /** The object type of the core codec: 1 is Main, 2 LC, 4 LTP. */
  readonly objectType: number
  readonly rateIndex: number
  readonly frameSamples: number
}

/** Longest sample that is parsed: 16 channels of the largest frames. */
const MAX_FRAME_BYTES = 768 * 16

/** More bytes than the elements of a damaged frame can reach past its end before that is noticed. */
const MARGIN_BYTES = 8_192

const MAIN = 1
const LTP = 4
const EIGHT_SHORT = 2
const DYNAMIC_RANGE = 11
const BAND_REPLICATION = 13
const ZERO_BAND = 0
const FIRST_WITHOUT_VALUES = 12
const NOISE_BAND = 13

/**
 * Finds the ends of AAC frames, which state no length: parses all of a `raw_data_block` (ISO/IEC 14496-3, 4.4.2) except the values of
 * its spectrum.
 */
export class AacFrames {
  readonly #stream: AacStream
  readonly #bands: Bands
  readonly #bytes = new Uint8Array(MAX_FRAME_BYTES + MARGIN_BYTES)
  readonly #view = viewOf(this.#bytes)
  /** Bytes of the last frame in the buffer. */
  #filled = 0
  /** Offset of the next bit, and of the end. */
  #at = 0
  #end = 0
  #codes = 0
  #hasChannel = false
  // Of the channel that is being parsed.
  #isShort = false
  #maxBand = 0
  /** Windows by group. */
  #groups: ReadonlyArray<number> = [1]
  readonly #books = new Uint8Array(128)

  constructor(stream: AacStream) {
    this.#stream = stream
    this.#bands = bandsOf(stream.rateIndex, stream.frameSamples)
  }

  /** Number of Huffman codes read so far, which take most of the time. */
  get codes(): number {
    return this.#codes
  }

  /** Returns the length in bytes of the frame that begins at `from`; `undefined` if none that ends before `to` does. */
  lengthAt(file: Uint8Array, from: number, to: number): number | undefined {
    const bytes = Math.min(to - from, MAX_FRAME_BYTES)
    this.#bytes.set(file.subarray(from, from + bytes))
    if (bytes < this.#filled) this.#bytes.fill(0, bytes, this.#filled)
    this.#filled = bytes
    this.#at = 0
    this.#end = bytes * 8
    this.#hasChannel = false
    return this.#block() && this.#at <= this.#end ? (this.#at + 7) >> 3 : undefined
  }

  #bits(count: number): number {
    const value = (this.#view.getUint32(this.#at >> 3) << (this.#at & 7)) >>> (32 - count)
    this.#at += count
    return value
  }

  #flag(): boolean {
    return this.#bits(1) === 1
  }

  #skip(bits: number): boolean {
    this.#at += bits
    return this.#at <= this.#end
  }

  #align(): void {
    this.#at = (this.#at + 7) & ~7
  }

  /** Reads elements up to the one that ends the block. Returns false where no decoder can go on. */
  #block(): boolean {
    while (this.#at + 3 <= this.#end) {
      const element = this.#bits(3)
      if (element === 7) return true
      const tag = this.#bits(4)
      if (!this.#element(element, tag) || this.#at > this.#end) return false
      this.#hasChannel ||= element < 4
    }
    return false
  }

  #element(element: number, tag: number): boolean {
    switch (element) {
      case 0: // A channel
      case 3: // The channel of low frequencies
        return this.#channel(false)
      case 1:
        return this.#pair()
      case 4: {
        const isAligned = this.#flag()
        const count = this.#bits(8)
        const bytes = count === 255 ? 255 + this.#bits(8) : count
        if (isAligned) this.#align()
        return this.#skip(8 * bytes)
      }
      case 5:
        return this.#programConfiguration()
      case 6:
        return this.#fill(tag === 15 ? 14 + this.#bits(8) : tag)
      default: // Coupling channels, which no encoder writes
        return false
    }
  }

  #fill(bytes: number): boolean {
    const end = this.#at + 8 * bytes
    if (end > this.#end) return false
    for (let left = bytes; left > 0;) {
      const type = this.#bits(4)
      if (type === BAND_REPLICATION || type === BAND_REPLICATION + 1) {
        // Without a channel, some decoders go on within the element.
        if (!this.#hasChannel) return false
      } else if (type === DYNAMIC_RANGE) left -= this.#dynamicRange()
      if (type !== DYNAMIC_RANGE) break
      // Decoders do not agree about a payload longer than its element.
      if (left < 0) return false
    }
    this.#at = end
    return true
  }

  /** Reads dynamic range control after its type, and returns its length in bytes; `Infinity` for more channels than exist. */
  #dynamicRange(): number {
    const start = this.#at - 4
    let bands = 1
    if (this.#flag()) this.#at += 8
    if (this.#flag()) for (let groups = 1; (this.#bits(8) & 1) === 1; groups++) if (groups === 8) return Infinity
    if (this.#flag()) {
      bands += this.#bits(4)
      this.#at += 4 + 8 * bands
    }
    if (this.#flag()) this.#at += 8
    this.#at += 8 * bands
    return (this.#at - start) >> 3
  }

  #programConfiguration(): boolean {
    this.#at += 6
    const channels = this.#bits(4) + this.#bits(4) + this.#bits(4)
    const lowFrequency = this.#bits(2)
    const data = this.#bits(3)
    const coupling = this.#bits(4)
    if (this.#flag()) this.#at += 4
    if (this.#flag()) this.#at += 4
    if (this.#flag()) this.#at += 3
    this.#at += 5 * (channels + coupling) + 4 * (lowFrequency + data)
    this.#align()
    if (this.#at > this.#end) return false
    return this.#skip(8 * this.#bits(8))
  }

  #pair(): boolean {
    const isCommon = this.#flag()
    if (isCommon) {
      if (!this.#window(true)) return false
      const isMasked = this.#bits(2)
      if (isMasked === 3) return false
      if (isMasked === 1) this.#at += this.#maxBand * this.#groups.length
    }
    return this.#channel(isCommon) && this.#at <= this.#end && this.#channel(isCommon)
  }

  #window(isPair: boolean): boolean {
    this.#at += 1
    this.#isShort = this.#bits(2) === EIGHT_SHORT
    this.#at += 1
    if (this.#isShort) {
      this.#maxBand = this.#bits(4)
      const groups: Array<number> = []
      let windows = 1
      for (let window = 1; window < 8; window++) {
        if (this.#flag()) windows++
        else {
          groups.push(windows)
          windows = 1
        }
      }
      this.#groups = [...groups, windows]
    } else {
      this.#groups = [1]
      this.#maxBand = this.#bits(6)
      if (this.#flag() && !this.#prediction(isPair)) return false
    }
    return this.#maxBand <= (this.#isShort ? this.#bands.short : this.#bands.long).length
  }

  #prediction(isPair: boolean): boolean {
    if (this.#stream.objectType === MAIN) {
      if (this.#flag()) this.#at += 5
      this.#at += Math.min(this.#maxBand, this.#bands.predicted)
      return true
    }
    if (this.#stream.objectType !== LTP) return false
    for (let channel = isPair ? 2 : 1; channel > 0; channel--)
      if (this.#flag()) this.#at += 14 + Math.min(this.#maxBand, 40)
    return true
  }

  #channel(hasWindow: boolean): boolean {
    this.#at += 8
    if (!hasWindow && !this.#window(false)) return false
    if (!this.#sections()) return false
    this.#scaleFactors()
    if (this.#flag()) {
      if (this.#isShort) return false
      const pulses = this.#bits(2) + 1
      this.#at += 6 + 9 * pulses
    }
    if (this.#flag() && !this.#noiseShaping()) return false
    // Gain control belongs to a profile that no decoder plays.
    if (this.#flag() || this.#at > this.#end) return false
    return this.#spectrum()
  }

  /** Reads the codebook of each band. */
  #sections(): boolean {
    const lengthBits = this.#isShort ? 3 : 5
    const escape = 2 ** lengthBits - 1
    const maxBand = this.#maxBand
    let index = 0
    for (let group = 0; group < this.#groups.length; group++)
      for (let band = 0; band < maxBand;) {
        const book = this.#bits(4)
        if (book === FIRST_WITHOUT_VALUES || this.#at > this.#end) return false
        let length = 0
        for (;;) {
          const step = this.#bits(lengthBits)
          length += step
          if (band + length > maxBand) return false
          if (step !== escape) break
        }
        this.#books.fill(book, index, index + length)
        index += length
        band += length
      }
    return true
  }

  #scaleFactors(): void {
    const { lengths, shift } = scaleFactorBook
    let isFirstNoise = true
    const end = this.#maxBand * this.#groups.length
    for (let index = 0; index < end; index++) {
      const book = this.#books[index]
      if (book === ZERO_BAND) continue
      if (book === NOISE_BAND && isFirstNoise) {
        isFirstNoise = false
        this.#at += 9
      } else {
        const next = (this.#view.getUint32(this.#at >> 3) << (this.#at & 7)) >>> shift
        this.#at += lengths[next] ?? 0
      }
    }
    this.#codes += end
  }

  #noiseShaping(): boolean {
    const isShort = this.#isShort
    const maxOrder = isShort ? 7 : this.#stream.objectType === MAIN ? 20 : 12
    for (let window = isShort ? 8 : 1; window > 0; window--) {
      const filters = this.#bits(isShort ? 1 : 2)
      if (filters === 0) continue
      const resolution = this.#bits(1) + 3
      for (let filter = 0; filter < filters; filter++) {
        this.#at += isShort ? 4 : 6
        const order = this.#bits(isShort ? 3 : 5)
        if (order > maxOrder) return false
        if (order > 0) {
          this.#at += 1
          const bits = resolution - this.#bits(1)
          this.#at += order * bits
        }
      }
    }
    return true
  }

  #spectrum(): boolean {
    const widths = this.#isShort ? this.#bands.short : this.#bands.long
    let index = 0
    for (const windows of this.#groups) {
      for (let band = 0; band < this.#maxBand; band++, index++) {
        const book = this.#books[index] ?? 0
        if (book === ZERO_BAND || book > FIRST_WITHOUT_VALUES) continue
        if (!this.#values(book, (widths[band] ?? 0) * windows)) return false
      }
      if (this.#at > this.#end) return false
    }
    return true
  }

  /** Skips the codes of a number of values. */
  #values(number: number, count: number): boolean {
    const book = spectralBooks[number - 1]
    if (book === undefined) return false
    const { lengths, shift, values } = book
    const view = this.#view
    const codes = count / values
    let at = this.#at
    this.#codes += codes
    for (let left = codes; left > 0; left--) {
      const length = lengths[(view.getUint32(at >> 3) << (at & 7)) >>> shift] ?? 0
      at += length & 31
      for (let escapes = length >> 5; escapes > 0; escapes--) {
        // Ones, a zero, and four bits more than there are ones.
        const ones = Math.clz32(~(view.getUint32(at >> 3) << (at & 7)))
        if (ones > 8) return false
        at += 2 * ones + 5
      }
    }
    this.#at = at
    return true
  }
}
