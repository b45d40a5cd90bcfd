import { assert, describe, it } from "@effect/vitest"
import { pieceWriter } from "@kiln/core/ports"
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"

const PIECE_BYTES = 8

const write = (parts: ReadonlyArray<Uint8Array>, maxBytes = 1_000) => {
  const hash = createHash("sha256")
  const written: Array<Buffer> = []
  const { append, end } = pieceWriter({
    maxBytes,
    pieceBytes: PIECE_BYTES,
    hash,
    // A copy, because the piece is overwritten afterwards.
    write: (piece) => Effect.sync(() => written.push(Buffer.from(piece))),
  })
  return Effect.map(Effect.forEach(parts, append, { discard: true }), () => ({
    ...end(),
    written,
    sha256: hash.digest("hex"),
  }))
}

describe("pieceWriter", () => {
  it("writes pieces of one length, keeps the rest, and hashes everything", () =>
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 3 * PIECE_BYTES }), { maxLength: 12 }), (parts) => {
        const content = Buffer.concat(parts)
        const { bytes, last, sha256, written } = Effect.runSync(write(parts))
        assert.strictEqual(bytes, content.length)
        assert.strictEqual(sha256, createHash("sha256").update(content).digest("hex"))
        assert.isTrue(written.every((piece) => piece.length === PIECE_BYTES))
        assert.isTrue(Buffer.concat([...written, last]).equals(content))
        assert.strictEqual(last.length > 0, content.length > 0)
      }),
    ))

  it("writes nothing for content of exactly one piece", () => {
    const { last, written } = Effect.runSync(write([new Uint8Array(PIECE_BYTES - 1), new Uint8Array(1)]))
    assert.lengthOf(written, 0)
    assert.lengthOf(last, PIECE_BYTES)
  })

  it("fails for more content than the limit", () => {
    assert.strictEqual(Effect.runSync(write([new Uint8Array(9), new Uint8Array(1)], 10)).bytes, 10)
    const error = Effect.runSync(Effect.flip(write([new Uint8Array(9), new Uint8Array(2)], 10)))
    assert.strictEqual(error._tag, "BlobTooLarge")
  })
})
