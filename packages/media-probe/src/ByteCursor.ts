/** A computation that pauses when it runs out of bytes and resumes when more have arrived. */
export type Scan<A> = Generator<undefined, A, undefined>

/**
 * Reads a file that arrives in chunks, forward only, and holds only the bytes that are examined together.
 * Numbers are read at offsets relative to the cursor, after `need` confirmed that they are available.
 */
export class ByteCursor {
  #bytes: Uint8Array = new Uint8Array(0)
  #view = new DataView(this.#bytes.buffer)
  #at = 0
  #ended = false
  /** File offset of the buffered bytes. */
  #start = 0
  #see: ((bytes: Uint8Array) => void) | undefined

  /** File offset of the cursor. */
  get position(): number {
    return this.#start + this.#at
  }

  /** Number of buffered bytes from the cursor on. */
  get available(): number {
    return this.#bytes.length - this.#at
  }

  /** Passes all bytes from here on to `see`, in order. */
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

  /** Marks the end of the file. */
  end(): void {
    this.#ended = true
  }

  /** Waits for `count` bytes; returns false if the file ends before. Keep `count` small, because the bytes are held in memory. */
  *need(count: number): Scan<boolean> {
    while (this.available < count) {
      if (this.#ended) return false
      yield
    }
    return true
  }

  /** Skips `count` bytes without keeping them (`Infinity`: all that are left), and returns how many there were. */
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

  /** Skips `count` buffered bytes. */
  advance(count: number): void {
    this.#at += count
  }

  /** Moves by at least one byte to the next buffered `byte`, or past all buffered bytes; at most by `limit` bytes. */
  seek(byte: number, limit = Infinity): void {
    const found = this.#bytes.indexOf(byte, this.#at + 1)
    this.#at = Math.min(found === -1 ? this.#bytes.length : found, this.#at + limit)
  }

  /**
   * Moves to the next buffered big-endian 32-bit `word`, at most by `limit` bytes, and returns whether it was found. If
   * not, the last three bytes stay buffered, because they may be the start of the word.
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

  /** Reads an unsigned 64-bit number. Rounded above 2^53, which exceeds any file length and duration. */
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

  /** Returns a view, not a copy: valid until the next step. */
  bytes(offset: number, length: number): Uint8Array {
    return this.#bytes.subarray(this.#at + offset, this.#at + offset + length)
  }
}
