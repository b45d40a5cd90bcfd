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

  /** Bytes at hand. */
  get available(): number {
    return this.#bytes.length - this.#at
  }

  push(chunk: Uint8Array): void {
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

  /** Moves on, at least by one byte, to the next `byte` at hand or past all that is at hand. Returns how far. */
  seek(byte: number): number {
    const from = this.#at
    const found = this.#bytes.indexOf(byte, from + 1)
    this.#at = found === -1 ? this.#bytes.length : found
    return this.#at - from
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
