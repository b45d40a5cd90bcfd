import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import {
  blockGroup,
  box,
  cluster,
  element,
  fixture,
  fragment,
  ftyp,
  mdat,
  patched,
  riffChunk,
  simpleBlock,
  soundTrack,
  stts,
  track,
  u32,
  vorbisPrivate,
  wav,
  webm,
} from "./support/files.ts"
import { reasonOf, secondsOf } from "./support/probe.ts"

const HUGE = 0xffff_ffff
const second = Buffer.alloc(16_000, 1)

describe("wav", () => {
  it.effect("counts the audio that is present", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second })), 1)
      for (const dataLength of [0, HUGE, 32_000])
        assert.strictEqual(yield* secondsOf("wav", wav({ data: second, dataLength })), 1, `says ${dataLength}`)
      assert.strictEqual(yield* secondsOf("wav", fixture("pcm16.wav").subarray(0, 44 + 8000)), 0.5)
    }),
  )

  it.effect("ignores chunks after the audio and the stated RIFF size", () =>
    Effect.gen(function* () {
      const after = riffChunk("LIST", Buffer.alloc(5000))
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, after })), 1)
      for (const formLength of [0, HUGE])
        assert.strictEqual(yield* secondsOf("wav", patched(wav({ data: second }), 4, ...u32(formLength))), 1)
    }),
  )

  it.effect("skips other chunks, including the padding of odd ones", () =>
    Effect.gen(function* () {
      const between = Buffer.concat([riffChunk("LIST", Buffer.alloc(31, 7)), riffChunk("fact", Buffer.alloc(4))])
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, between })), 1)
    }),
  )

  it.effect("uses channels, rate and width, not the stated byte rate", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, byteRate: 4_000_000 })), 1)
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, byteRate: 0 })), 1)
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, channels: 2, rate: 4000 })), 1)
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, codec: 7, bits: 8 })), 2)
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, codec: 0xfffe, bits: 32 })), 0.5)
      // Blocks of 256 bytes hold one sample in their header and two in each byte after it.
      const ima = wav({ data: second, codec: 0x11, bits: 4, blockBytes: 256, byteRate: 4_000_000 })
      assert.strictEqual(yield* secondsOf("wav", ima), (62.5 * 505) / 8000)
    }),
  )

  it.effect("reads the length of 64-bit formats from their ds64 chunk", () =>
    Effect.gen(function* () {
      const ds64 = Buffer.alloc(28)
      ds64.writeBigUInt64LE(16_000n, 8)
      const after = riffChunk("junk", Buffer.alloc(9000))
      for (const form of ["RF64", "BW64"])
        assert.strictEqual(
          yield* secondsOf(
            "wav",
            wav({ form, data: second, dataLength: HUGE, between: riffChunk("ds64", ds64), after }),
          ),
          1,
        )
    }),
  )

  it.effect("is unreadable without a valid format or without audio", () =>
    Effect.gen(function* () {
      const impossible = "wav: missing, invalid or unsupported sample format"
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, rate: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, channels: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, bits: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, codec: 0x160, byteRate: 2000 })), impossible)
      assert.strictEqual(
        yield* reasonOf("wav", Buffer.concat([Buffer.from("RIFF\0\0\0\0WAVE"), riffChunk("data", second)])),
        impossible,
      )
      assert.strictEqual(
        yield* reasonOf("wav", Buffer.concat([Buffer.from("RIFF\0\0\0\0WAVE"), riffChunk("LIST", second)])),
        "wav: no audio data",
      )
      assert.strictEqual(
        yield* reasonOf("wav", patched(wav({ data: second }), 16, 255, 255, 255, 255)),
        "wav: no audio data",
      )
    }),
  )

  it.effect("without any sample is empty, not unreadable", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* secondsOf("wav", wav({ data: Buffer.alloc(0) })), 0)
    }),
  )
})

describe("mp3", () => {
  const tagged = fixture("cbr.mp3")
  const cbr = tagged.subarray(tagged.indexOf(Buffer.from([0xff, 0xf3])))
  const vbr = fixture("vbr-tagged.mp3")
  const xing = vbr.indexOf("Xing")

  it.effect("counts frames, so a truncated file lasts as long as its rest", () =>
    Effect.gen(function* () {
      const half = yield* secondsOf("mp3", cbr.subarray(0, cbr.length / 2))
      assert.closeTo(half ?? NaN, 2.568 / 2, 0.05)
    }),
  )

  it.effect("ignores the encoder's table of contents", () =>
    Effect.gen(function* () {
      assert.isAbove(xing, 0)
      const honest = yield* secondsOf("mp3", vbr)
      for (const frames of [1, HUGE])
        assert.strictEqual(yield* secondsOf("mp3", patched(vbr, xing + 8, ...u32(frames))), honest)
    }),
  )

  it.effect("ignores tags and garbage before, between and after the frames", () =>
    Effect.gen(function* () {
      const honest = yield* secondsOf("mp3", cbr)
      const tag = Buffer.concat([Buffer.from("ID3\x04\0\0\0\x02\x4c\0"), Buffer.alloc(42_496, 0xff)])
      const footed = Buffer.concat([Buffer.from("ID3\x04\0\x10\0\0\0\x14"), Buffer.alloc(30, 0xfb)])
      const end = Buffer.concat([Buffer.from("TAG"), Buffer.alloc(125, 0x20)])
      const garbage = Buffer.alloc(4000, Buffer.from([0xff, 0xfb, 0xff, 0xff, 0xf3, 0x00]))
      assert.strictEqual(yield* secondsOf("mp3", Buffer.concat([tag, footed, cbr, end])), honest)
      assert.strictEqual(yield* secondsOf("mp3", Buffer.concat([cbr, garbage])), honest)
      const middle = Buffer.concat([cbr, garbage, cbr])
      assert.closeTo((yield* secondsOf("mp3", middle)) ?? NaN, 2 * (honest ?? NaN), 0.05)
    }),
  )

  it.effect("continues after a change of the sample rate", () =>
    Effect.gen(function* () {
      const audio = vbr.subarray(vbr.indexOf(Buffer.from([0xff, 0xfb])))
      assert.closeTo((yield* secondsOf("mp3", Buffer.concat([cbr, audio]))) ?? NaN, 2.568 + 2.534, 0.06)
    }),
  )

  it.effect("is unreadable without consecutive frames", () =>
    Effect.gen(function* () {
      const header = cbr.subarray(0, 4)
      const lonely = Buffer.concat([header, Buffer.alloc(9000)])
      assert.strictEqual(yield* reasonOf("mp3", lonely), "mp3: no frames")
      assert.strictEqual(yield* reasonOf("mp3", header), "mp3: no frames")
      const tagOnly = Buffer.concat([Buffer.from("ID3\x04\0\0\x7f\x7f\x7f\x7f"), Buffer.alloc(3000, 0x41)])
      assert.strictEqual(yield* reasonOf("mp3", tagOnly), "mp3: no frames")
      const tooLate = Buffer.concat([header, Buffer.alloc(70_000), cbr])
      assert.strictEqual(yield* reasonOf("mp3", tooLate), "mp3: no frames")
    }),
  )
})

describe("mp4", () => {
  const movie = (...boxes: ReadonlyArray<Buffer>): Buffer => Buffer.concat([ftyp, box("moov", ...boxes), mdat])
  const fragmented = (defaults: Buffer, ...fragments: ReadonlyArray<Buffer>): Buffer =>
    Buffer.concat([
      ftyp,
      box("moov", soundTrack(1, 0), box("mvex", defaults)),
      ...fragments.flatMap((moof) => [moof, mdat]),
    ])
  const trex = (trackId: number, ticks: number): Buffer =>
    box("trex", Buffer.alloc(4), u32(trackId), u32(1), u32(ticks), Buffer.alloc(8))
  const noDefaults = Buffer.alloc(0)

  it.effect("adds up the samples and ignores the header", () =>
    Effect.gen(function* () {
      for (const stated of [0, 1, 900_000, HUGE])
        assert.strictEqual(
          yield* secondsOf("mp4", movie(soundTrack(1, stated, stts([10, 100], [1, 500])))),
          1.5,
          `says ${stated}`,
        )
      assert.strictEqual(yield* reasonOf("mp4", movie(soundTrack(1, 2500))), "mp4: no samples")
    }),
  )

  it.effect("takes the longest audio track and leaves pictures out", () =>
    Effect.gen(function* () {
      const tracks = [
        soundTrack(1, 0, stts([1, 2000])),
        track(2, "vide", 0, stts([1, 9000])),
        soundTrack(3, 0, stts([1, 3000])),
      ]
      assert.strictEqual(yield* secondsOf("m4a", movie(...tracks)), 3)
      assert.strictEqual(
        yield* reasonOf("m4a", movie(track(2, "vide", 9000, stts([1, 9000])))),
        "mp4: no audio track found",
      )
    }),
  )

  it.effect("adds up fragments: stated durations, or the movie's default", () =>
    Effect.gen(function* () {
      const own = fragment(1, { flags: 0x301, samples: 2, words: [0, 300, 99, 200, 99] })
      const byDefault = fragment(1, { flags: 0x001, samples: 20, words: [0] })
      const foreign = fragment(9, { flags: 0x100, samples: 1, words: [7000] })
      assert.strictEqual(yield* secondsOf("mp4", fragmented(noDefaults, own, foreign)), 0.5)
      assert.strictEqual(yield* secondsOf("mp4", fragmented(trex(1, 100), byDefault, own, byDefault)), 4.5)
      const timeless = yield* secondsOf("mp4", fragmented(noDefaults, byDefault))
      assert.strictEqual(timeless, (18 * 1024) / 48_000, "no duration anywhere, but frames")
    }),
  )

  it.effect("does not loop over claimed counts: four billion samples in a box of sixteen bytes", () =>
    Effect.gen(function* () {
      const boundless = fragment(1, { flags: 0, samples: HUGE })
      assert.strictEqual(yield* secondsOf("mp4", fragmented(trex(1, 1000), boundless)), HUGE)
      const cut = fragment(1, { flags: 0x100, samples: HUGE, words: [250, 250] })
      assert.isAbove(
        (yield* secondsOf("mp4", fragmented(noDefaults, cut))) ?? NaN,
        1e6,
        "decoders read beyond the end of the box",
      )
      const table = box("stts", Buffer.alloc(4), u32(HUGE), u32(3), u32(1000))
      assert.strictEqual(yield* secondsOf("mp4", movie(soundTrack(1, 0, table))), 3)
    }),
  )

  it.effect("reads 64-bit sizes, and a size of zero as the rest of the file", () =>
    Effect.gen(function* () {
      const moov = box("moov", soundTrack(1, 0, stts([1, 1000])))
      const longMdat = Buffer.concat([u32(1), Buffer.from("mdat"), u32(0), u32(116), Buffer.alloc(100)])
      const openMdat = Buffer.concat([u32(0), Buffer.from("mdat"), Buffer.alloc(100)])
      assert.strictEqual(yield* secondsOf("mp4", Buffer.concat([ftyp, longMdat, moov])), 1)
      assert.strictEqual(yield* secondsOf("mp4", Buffer.concat([ftyp, moov, openMdat])), 1)
      assert.strictEqual(yield* reasonOf("mp4", Buffer.concat([ftyp, openMdat, moov])), "mp4: no audio track found")
    }),
  )

  it.effect("is unreadable without description, time scale or media", () =>
    Effect.gen(function* () {
      const last = fixture("moov-last.m4a")
      assert.strictEqual(yield* reasonOf("m4a", last.subarray(0, last.length / 2)), "mp4: no audio track found")
      const good = movie(soundTrack(1, 0, stts([1, 1000])))
      assert.strictEqual(yield* reasonOf("mp4", good.subarray(0, good.length - mdat.length)), "mp4: no media data")
      const timeScale = good.indexOf("mdhd") + 16
      assert.strictEqual(yield* secondsOf("mp4", patched(good, timeScale, 0, 0, 0, 0)), 0, "a frame is next to nothing")
    }),
  )

  it.effect("stops if no box can begin", () =>
    Effect.gen(function* () {
      const good = movie(soundTrack(1, 0, stts([1, 1000])))
      for (const size of [2, 7])
        assert.strictEqual(yield* secondsOf("mp4", Buffer.concat([good, u32(size), Buffer.from("free"), good])), 1)
      const impossible = Buffer.concat([good, u32(1), Buffer.from("free"), u32(0), u32(3), good])
      assert.strictEqual(yield* secondsOf("mp4", impossible), 1)
    }),
  )
})

describe("webm", () => {
  const opus = { number: 1, type: 2, codec: "A_OPUS" }
  const vorbis = { number: 2, type: 2, codec: "A_VORBIS", codecPrivate: vorbisPrivate() }
  const video = { number: 3, type: 1, codec: "V_VP8" }
  const stated = (ticks: number): Buffer => {
    const value = Buffer.alloc(8)
    value.writeDoubleBE(ticks)
    return element(0x1549a966, element(0x4489, value))
  }

  it.effect("lasts from the first block to the end of the last, whatever the header states", () =>
    Effect.gen(function* () {
      const blocks = [
        cluster(0, simpleBlock(1, 0), simpleBlock(1, 980)),
        cluster(60_000, simpleBlock(1, -20), simpleBlock(1, 1480)),
      ]
      assert.strictEqual(yield* secondsOf("webm", webm([opus], ...blocks)), 61.5)
      for (const ticks of [1, 1e300, NaN, -5])
        assert.strictEqual(yield* secondsOf("webm", webm([opus], stated(ticks), ...blocks)), 61.5)
    }),
  )

  it.effect("does not count the time before the recording began", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* secondsOf("webm", webm([opus], cluster(3_600_000, simpleBlock(1, 0), simpleBlock(1, 980)))),
        1,
      )
    }),
  )

  it.effect("determines the duration of the last block from Opus, the block, the track, or the previous gap", () =>
    Effect.gen(function* () {
      const frame = Buffer.from([0, 0, 0])
      const threeFrames = Buffer.from([0xff, 0x03, 0])
      assert.strictEqual(
        yield* secondsOf("webm", webm([opus], cluster(0, simpleBlock(1, 100), simpleBlock(1, 900, threeFrames)))),
        0.86,
      )
      assert.strictEqual(
        yield* secondsOf("webm", webm([vorbis], cluster(0, simpleBlock(2, 0, frame), blockGroup(2, 900, 100, frame)))),
        1,
      )
      assert.strictEqual(
        yield* secondsOf(
          "webm",
          webm(
            [{ ...vorbis, defaultNs: 50_000_000 }],
            cluster(0, simpleBlock(2, 0, frame), simpleBlock(2, 900, frame)),
          ),
        ),
        0.95,
      )
      assert.strictEqual(
        yield* secondsOf(
          "webm",
          webm([vorbis], cluster(0, simpleBlock(2, 0, frame), simpleBlock(2, 40, frame), simpleBlock(2, 80, frame))),
        ),
        0.12,
      )
    }),
  )

  it.effect("takes the longest audio track and leaves pictures out", () =>
    Effect.gen(function* () {
      const blocks = cluster(
        0,
        simpleBlock(1, 0),
        simpleBlock(3, 0),
        simpleBlock(3, 9000),
        simpleBlock(1, 980),
        simpleBlock(7, 20_000),
      )
      assert.strictEqual(yield* secondsOf("webm", webm([video, opus], blocks)), 1)
      assert.strictEqual(yield* reasonOf("webm", webm([video], blocks)), "webm: no audio track found")
      assert.strictEqual(yield* reasonOf("webm", webm([opus], cluster(0, simpleBlock(3, 0)))), "webm: no audio data")
    }),
  )

  it.effect("lasts as long as its rest when it is truncated", () =>
    Effect.gen(function* () {
      const file = fixture("opus.webm")
      const half = (yield* secondsOf("webm", file.subarray(0, file.length / 2))) ?? NaN
      assert.isAbove(half, 0.8)
      assert.isBelow(half, 1.7)
      const cutBlock = webm([opus], cluster(0, simpleBlock(1, 0), simpleBlock(1, 980)))
      assert.strictEqual(yield* secondsOf("webm", cutBlock.subarray(0, -1)), 0.02)
    }),
  )

  it.effect("continues at the next cluster after damage", () =>
    Effect.gen(function* () {
      const damage = [
        Buffer.alloc(50),
        element(0xec, [], Buffer.from([0xff])),
        Buffer.from([0, 0x1f, 0x43, 0xb6, 0x1f, 0x43]),
      ]
      for (const bytes of damage) {
        const file = webm([opus], cluster(0, simpleBlock(1, 0)), bytes, cluster(1000, simpleBlock(1, 480)), bytes)
        assert.strictEqual(yield* secondsOf("webm", file), 1.5)
      }
    }),
  )

  it.effect("is unreadable if damage leaves no block, whatever duration is stated", () =>
    Effect.gen(function* () {
      for (const ticks of [0, -1, 5000, NaN, Infinity, 1e308])
        assert.strictEqual(
          yield* reasonOf("webm", webm([opus], stated(ticks), element(0x2ad7b1, u32(HUGE)), Buffer.alloc(50))),
          "webm: no audio data",
        )
    }),
  )

  it.effect("copes with sizes past the end and with a scale of zero", () =>
    Effect.gen(function* () {
      const far = Buffer.from([1, 0x7f, 255, 255, 255, 255, 255, 0])
      const blocks = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      assert.strictEqual(yield* secondsOf("webm", webm([opus], blocks, element(0xec, [], far), blocks)), 1)
      assert.strictEqual(yield* secondsOf("webm", webm([opus], element(0x2ad7b1, Buffer.from([0])), blocks)), 1)
      assert.strictEqual(yield* secondsOf("webm", webm([opus], element(0x2ad7b1, u32(2_000_000)), blocks)), 1.98)
    }),
  )

  it.effect("is not Matroska", () =>
    Effect.gen(function* () {
      const file = webm([opus], cluster(0, simpleBlock(1, 0)))
      const matroska = Buffer.from(file.toString("latin1").replace("webm", "mkva"), "latin1")
      assert.match(yield* reasonOf("webm", matroska), /^declared as webm/)
    }),
  )
})
