import { assert, it } from "@effect/vitest"
import { opusPacketMs } from "../src/codecs/opusPacket.ts"

// RFC 6716, table 2: milliseconds of a frame by configuration number.
const frames = [
  10, 20, 40, 60, 10, 20, 40, 60, 10, 20, 40, 60, 10, 20, 10, 20, 2.5, 5, 10, 20, 2.5, 5, 10, 20, 2.5, 5, 10, 20, 2.5,
  5, 10, 20,
]

it("returns the duration of each kind of packet", () => {
  for (const [configuration, frameMs] of frames.entries()) {
    const toc = configuration << 3
    assert.strictEqual(opusPacketMs(toc, undefined), frameMs, `configuration ${configuration}`)
    assert.strictEqual(opusPacketMs(toc | 4, 0xff), frameMs, "stereo")
    for (const code of [1, 2]) assert.strictEqual(opusPacketMs(toc | code, 0xff), 2 * frameMs)
    const most = Math.floor(120 / frameMs)
    assert.strictEqual(opusPacketMs(toc | 3, most), most * frameMs)
    assert.strictEqual(opusPacketMs(toc | 3, 0xc0 | most), most * frameMs, "ignores padding and rate flags")
  }
})

it("rejects packets without frames and packets of more than 120 ms", () => {
  assert.isUndefined(opusPacketMs(0x03, 0))
  assert.isUndefined(opusPacketMs(0x03, undefined))
  assert.isUndefined(opusPacketMs((19 << 3) | 3, 7))
})
