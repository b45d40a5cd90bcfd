import { markReleasable, releaseBytes } from "@kiln/core/ports"
import { expect, it } from "vitest"

it("frees bytes that were marked, and no others", () => {
  const marked = new Uint8Array(1_000)
  const kept = new Uint8Array(1_000)
  markReleasable(marked)
  releaseBytes(marked)
  releaseBytes(kept)
  expect([marked.length, marked.buffer.byteLength, kept.length]).toEqual([0, 0, 1_000])
  releaseBytes(marked)
  expect(marked.length).toBe(0)
})

it("keeps a buffer whose bytes are marked only in part", () => {
  const whole = new Uint8Array(1_000)
  const part = whole.subarray(0, 500)
  markReleasable(part)
  releaseBytes(part)
  expect([part.length, whole.length]).toEqual([500, 1_000])
})
