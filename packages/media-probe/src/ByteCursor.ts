/** A computation that stops where it runs out of bytes and goes on when more have come. */
export type Scan<A> = Generator<undefined, A, undefined>

/**
 * Reads a file that arrives in chunks, forwards only, without ever holding more of it than what is looked at together.
 * Numbers are read at offsets relative to the cursor, after `need` said they are there.
 */
export class ByteCursor {
  #bytes: Uint8Array = new Uint8Array(0)
  #view = new DataView(this.#bytes.buffer)
  #at = 0
  #ended = false
  /** Where the bytes at hand begin in the file. */
  #start = 0
  #see: ((bytes: Uint8Array) => void) | undefined

  /** How far into the file the cursor is. */
  get position(): number {
    return this.#start + this.#at
  }

  /** Bytes at hand. */
  get available(): number {
    return this.#bytes.length - this.#at
  }

  /** Shows `see` all bytes from here on, in order. */
  watch(see: (bytes: Uint8Array) => void): void {
    see(this.bytes(0, this.available))
    this.#see = see
  }

  push(chunk: Uint8Array): void {
    this.#see?.(chunk)
    this.#start = this.position
    if (this.available === 0) this.#bytes = chunk
    else {
      const joined = new Uint8Array(this.available + chunk.length)
      joined.set(this.#bytes.subarray(this.#at))
      joined.set(chunk, this.available)
      this.#bytes = joined
    }
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length)
    this.#at = 0
  }

  /** No more chunks will come. */
  end(): void {
    this.#ended = true
  }

  /** Whether `count` bytes are at hand; `false` means the file ends before. Keep it small: all of it is held in memory. */
  *need(count: number): Scan<boolean> {
    while (this.available < count) {
      if (this.#ended) return false
      yield
    }
    return true
  }

  /** Moves past `count` bytes without keeping them (`Infinity`: all that are left), and says how many there were. */
  *skip(count: number): Scan<number> {
    let skipped = 0
    while (true) {
      const step = Math.min(count - skipped, this.available)
      this.#at += step
      skipped += step
      if (skipped >= count || this.#ended) return skipped
      yield
    }
  }

  /** Moves past `count` bytes that are at hand. */
  advance(count: number): void {
    this.#at += count
  }

  /** Moves on, at least by one byte, to the next `byte` at hand or past all that is at hand, at most by `limit` bytes. */
  seek(byte: number, limit = Infinity): void {
    const found = this.#bytes.indexOf(byte, this.#at + 1)
    this.#at = Math.min(found === -1 ? this.#bytes.length : found, this.#at + limit)
  }

  /**
   * Moves on to the next big-endian `word` of 32 bits at hand, at most by `limit` bytes, and says whether it is there. If
   * it is not, the last three bytes stay at hand: the word may have begun.
   */
  seekWord(word: number, limit = Infinity): boolean {
    const first = word >>> 24
    const end = this.#at + Math.min(limit, Math.max(0, this.available - 3))
    while (this.#at < end) {
      const found = this.#bytes.indexOf(first, this.#at)
      this.#at = found === -1 || found > end ? end : found
      if (this.#at < end && this.#view.getUint32(this.#at) === word) return true
      if (this.#at < end) this.#at++
    }
    return false
  }

  u8(offset: number): number {
    return this.#view.getUint8(this.#at + offset)
  }

  u16(offset: number, littleEndian = false): number {
    return this.#view.getUint16(this.#at + offset, littleEndian)
  }

  i16(offset: number): number {
    return this.#view.getInt16(this.#at + offset)
  }

  i32(offset: number): number {
    return this.#view.getInt32(this.#at + offset)
  }

  u24(offset: number): number {
    return this.u8(offset) * 65_536 + this.u16(offset + 1)
  }

  u32(offset: number, littleEndian = false): number {
    return this.#view.getUint32(this.#at + offset, littleEndian)
  }

  /** Above 2^53 rounded, which is past any end and longer than any time. */
  u64(offset: number, littleEndian = false): number {
    return Number(this.#view.getBigUint64(this.#at + offset, littleEndian))
  }

  f32(offset: number): number {
    return this.#view.getFloat32(this.#at + offset)
  }

  f64(offset: number): number {
    return this.#view.getFloat64(this.#at + offset)
  }

  ascii(offset: number, length: number): string {
    return String.fromCharCode(...this.bytes(offset, length))
  }

  /** A view, not a copy: good until the next step. */
  bytes(offset: number, length: number): Uint8Array {
    return this.#bytes.subarray(this.#at + offset, this.#at + offset + length)
  }
}
