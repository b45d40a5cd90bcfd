import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { measureMp4 } from "../src/mp4/measureMp4.ts"
import { Work } from "../src/Work.ts"
import {
  aac,
  blockGroup,
  box,
  cluster,
  element,
  fixture,
  ftyp,
  patched,
  riffChunk,
  simpleBlock,
  soundEntry,
  stts,
  u32,
  vorbisPrivate,
  wav,
  webm,
} from "./support/files.ts"
import { adtsFrame, fastFrame, slowFrame } from "./corpus/frames.ts"
import { noise } from "./corpus/HostileFile.ts"
import { aacFrame, edits, fragment, mp4, stco, stsc, stsz } from "./support/mp4.ts"
import { reasonOf, secondsOf } from "./support/probe.ts"

const HUGE = 0xffff_ffff
const second = Buffer.alloc(16_000, 1)
/** AC-3 at 48 kHz and 32 kbit/s: 32 ms. */
const ac3 = Buffer.concat([Buffer.from([0x0b, 0x77, 0, 0, 0, 0x40]), Buffer.alloc(122, 1)])
/** The header of a FLAC frame of 4,096 samples, with its checksum, and something after it. */
const flacFrame = Buffer.from([0xff, 0xf8, 0xc0, 0x18, 0, 0xf8, 1, 2, 3])
const dfLa = box("dfLa", u32(0), u32(0x8000_0022), Buffer.alloc(10), u32(48_000 << 12), Buffer.alloc(20))

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

  it.effect("counts no chunks, tags or zeros behind the audio, and no part of a sample", () =>
    Effect.gen(function* () {
      const odd = Buffer.concat([second, Buffer.alloc(1)])
      for (const after of ["ID3\x04\0\0\0\0\0\x05hello", "id3 \x05\0\0\0hello", "\0".repeat(9000), "text"])
        assert.strictEqual(yield* secondsOf("wav", wav({ data: odd, after: Buffer.from(after) })), 1)
    }),
  )

  it.effect("skips other chunks, with or without the padding of odd ones", () =>
    Effect.gen(function* () {
      const unpadded = riffChunk("LIST", Buffer.alloc(31, 7)).subarray(0, -1)
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, between: unpadded })), 1)
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
      // 24 bits in words of four bytes.
      assert.strictEqual(yield* secondsOf("wav", wav({ data: second, bits: 24, blockBytes: 4 })), 0.5)
      // Blocks of 256 bytes hold one sample in their header and two in each byte after it.
      const ima = wav({ data: second, codec: 0x11, bits: 4, blockBytes: 256, byteRate: 4_000_000 })
      assert.strictEqual(yield* secondsOf("wav", ima), (62 * 505 + 249) / 8000)
      assert.strictEqual(
        yield* secondsOf("wav", wav({ data: second, codec: 0x31, blockBytes: 65 })),
        (246 * 320) / 8000,
      )
    }),
  )

  it.effect("reads the length of 64-bit formats from their first chunk, which must state it", () =>
    Effect.gen(function* () {
      const ds64 = Buffer.alloc(28)
      ds64.writeBigUInt64LE(16_000n, 8)
      const lengths = riffChunk("ds64", ds64)
      const after = riffChunk("junk", Buffer.alloc(9000))
      for (const form of ["RF64", "BW64"]) {
        const file = wav({ form, data: second, dataLength: HUGE, after })
        const whole = Buffer.concat([file.subarray(0, 12), lengths, file.subarray(12)])
        assert.strictEqual(yield* secondsOf("wav", whole), 1)
        assert.strictEqual(yield* reasonOf("wav", file), "wav: no 64-bit lengths")
        const late = wav({ form, data: second, dataLength: HUGE, between: lengths, after })
        assert.strictEqual(yield* reasonOf("wav", late), "wav: no 64-bit lengths")
      }
    }),
  )

  it.effect("is unreadable without a valid format or without audio", () =>
    Effect.gen(function* () {
      const impossible = "wav: missing, invalid or unsupported sample format"
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, rate: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, channels: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, bits: 0 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, codec: 0x160, byteRate: 2000 })), impossible)
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, codec: 0xfffe })), impossible)
      const format = riffChunk("fmt ", Buffer.alloc(16, 1))
      assert.strictEqual(yield* reasonOf("wav", wav({ data: second, between: format })), impossible)
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

  it.effect("may follow an ID3 tag", () =>
    Effect.gen(function* () {
      const tag = Buffer.concat([Buffer.from("ID3\x04\0\0\0\0\x01\0"), Buffer.alloc(128)])
      const file = Buffer.concat([tag, wav({ data: second })])
      assert.strictEqual(yield* secondsOf("wav", file), 1)
      assert.strictEqual(yield* reasonOf("mp3", file), "declared as mp3, but the file is wav")
    }),
  )

  it.effect("measures honest samples in which sync words occur", () =>
    Effect.gen(function* () {
      const words = [
        "7ffe8001fc3c",
        "fe7f01803cfc",
        "72f81f4e0100",
        "0b7700000040",
        "fff15c400040",
        "fffb9064",
        "f8726fba",
      ]
      const parts = words.flatMap((word) => [Buffer.from(word, "hex"), noise(1200)])
      const data = Buffer.concat(Array.from({ length: 5 }, () => parts).flat())
      assert.strictEqual(yield* secondsOf("wav", wav({ data })), Math.floor(data.length / 2) / 8000)
    }),
  )

  it.effect("measures steady signals, whatever header their bytes resemble", () =>
    Effect.gen(function* () {
      for (const first of [0x0b, 0x77, 0xff, 0x56, 0x47, 0x72, 0x7f, 0xfe])
        for (let last = 0; last < 256; last++)
          assert.strictEqual(
            yield* secondsOf("wav", wav({ data: Buffer.alloc(8000, Buffer.from([first, last])) })),
            0.5,
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
      assert.closeTo(half ?? NaN, 2.568 / 2, 0.1)
    }),
  )

  it.effect("ignores the encoder's table of contents", () =>
    Effect.gen(function* () {
      assert.isAbove(xing, 0)
      const honest = yield* secondsOf("mp3", vbr)
      for (const frames of [1, HUGE])
        assert.closeTo((yield* secondsOf("mp3", patched(vbr, xing + 8, ...u32(frames)))) ?? NaN, honest ?? NaN, 0.03)
    }),
  )

  it.effect("ignores tags and garbage before, between and after the frames", () =>
    Effect.gen(function* () {
      const honest = yield* secondsOf("mp3", cbr)
      const tag = Buffer.concat([Buffer.from("ID3\x04\0\0\0\x02\x4c\0"), Buffer.alloc(42_496, 0xff)])
      const footed = Buffer.concat([Buffer.from("ID3\x04\0\x10\0\0\0\x14"), Buffer.alloc(30, 0xfb)])
      const end = Buffer.concat([Buffer.from("TAG"), Buffer.alloc(125, 0x20)])
      const garbage = Buffer.alloc(1000, Buffer.from([0xff, 0xfb, 0xff, 0xff, 0xf3, 0x00]))
      assert.strictEqual(yield* secondsOf("mp3", Buffer.concat([tag, footed, cbr, end])), honest)
      assert.closeTo((yield* secondsOf("mp3", Buffer.concat([cbr, garbage]))) ?? NaN, honest ?? NaN, 0.05)
      const middle = Buffer.concat([cbr, garbage, cbr])
      assert.closeTo((yield* secondsOf("mp3", middle)) ?? NaN, 2 * (honest ?? NaN), 0.15)
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
      const lonely = Buffer.concat([header, Buffer.alloc(9000, 1)])
      assert.match(yield* reasonOf("mp3", lonely), /^mp3: (no|too few) frames$/)
      assert.strictEqual(yield* reasonOf("mp3", header), "mp3: no frames")
      const tagOnly = Buffer.concat([Buffer.from("ID3\x04\0\0\x7f\x7f\x7f\x7f"), Buffer.alloc(3000, 0x41)])
      assert.strictEqual(yield* reasonOf("mp3", tagOnly), "mp3: no frames")
      const tooLate = Buffer.concat([header, Buffer.alloc(70_000, 1), cbr])
      assert.match(yield* reasonOf("mp3", tooLate), /^mp3: (no|too few) frames$/)
    }),
  )

  it.effect("counts a frame only where the one before ends", () =>
    Effect.gen(function* () {
      const hidden = patched(fastFrame, 100, ...slowFrame, 1, ...slowFrame, 1, ...slowFrame)
      assert.strictEqual(yield* secondsOf("mp3", Buffer.alloc(50 * hidden.length, hidden)), 50 * 0.024)
      const padded = Buffer.concat([slowFrame, Buffer.alloc(3)])
      const apart = Buffer.concat([slowFrame, Buffer.alloc(49 * padded.length, padded)])
      assert.closeTo((yield* secondsOf("mp3", apart)) ?? NaN, 50 * 0.072, 1e-9)
      const invalid = patched(slowFrame, 5, 0xff, 0xff, 0xff)
      assert.isString(yield* reasonOf("mp3", Buffer.alloc(50 * invalid.length, invalid)))
    }),
  )

  it.effect("reads large tags behind the frames, and frames inside them as decoders do", () =>
    Effect.gen(function* () {
      const frames = Buffer.alloc(100 * 72, slowFrame)
      const ape = (bytes: number) =>
        Buffer.concat([Buffer.from("APETAGEX\xd0\x07\0\0", "latin1"), u32(bytes).reverse(), Buffer.alloc(16)])
      const id3 = Buffer.from("ID3\x04\0\0\0\x20\0\0")
      for (const tag of [ape(524_288), id3])
        assert.closeTo((yield* secondsOf("mp3", Buffer.concat([frames, tag, noise(524_288)]))) ?? NaN, 7.2, 0.1)
      assert.closeTo((yield* secondsOf("mp3", Buffer.concat([frames, ape(1e6), frames, frames]))) ?? NaN, 21.6, 0.1)
    }),
  )

  it.effect("begins with a frame, an APE tag, or the rest of a tag whose length is wrong", () =>
    Effect.gen(function* () {
      const frames = Buffer.alloc(200 * 72, slowFrame)
      const text = Buffer.alloc(3000, "TIT2 a tag")
      for (const tag of ["ID3\x04\0\0\0\0\0\x09", "ID3\x03\0\0\0\0\x80\0", "APETAGEX\xd0\x07\0\0\0\x10\0\0"])
        assert.closeTo(
          (yield* secondsOf("mp3", Buffer.concat([Buffer.from(tag, "latin1"), text, frames]))) ?? NaN,
          14.4,
          0.1,
        )
      const zeroedXing = patched(slowFrame, 13, ...Buffer.from("Xing"))
      assert.closeTo((yield* secondsOf("mp3", Buffer.concat([zeroedXing, frames]))) ?? NaN, 14.472, 1e-9)
    }),
  )

  it.effect("is unreadable if decoders find another format", () =>
    Effect.gen(function* () {
      const frames = Buffer.alloc(200 * 72, slowFrame)
      const tag = Buffer.from("ID3\x04\0\0\0\0\0\0")
      const aac = Buffer.alloc(20 * adtsFrame.length, adtsFrame)
      const packet = Buffer.concat([Buffer.from([0x47, 0x40, 0x11, 0x10]), Buffer.alloc(184, 1)])
      for (const other of [Buffer.from("OggS\0\x02"), Buffer.from("fLaC"), aac, Buffer.alloc(188 * 40, packet)])
        assert.match(yield* reasonOf("mp3", Buffer.concat([tag, other, frames])), /^mp3: decoders find /)
      const opus = Buffer.concat([Buffer.from("OggS"), noise(20_000)])
      const few = Buffer.alloc(2 * 72, slowFrame)
      assert.isString(yield* reasonOf("mp3", Buffer.concat([tag, few, opus])))
    }),
  )
})

describe("mp4", () => {
  const frames = (count: number): ReadonlyArray<Buffer> => Array.from({ length: count }, () => aacFrame)
  const seconds = (count: number): number => (count * 1024) / 48_000
  const ambiguous = (file: Buffer, why: RegExp) =>
    Effect.map(reasonOf("mp4", file), (reason) => assert.match(reason, new RegExp(`^mp4: ambiguous: .*${why.source}`)))

  it.effect("adds up the frames and ignores the header", () =>
    Effect.gen(function* () {
      const file = mp4([{ samples: frames(141) }])
      for (const stated of [0, 1, 900_000, HUGE]) {
        const stating = patched(file, file.indexOf("mdhd") + 20, ...u32(stated))
        assert.closeTo((yield* secondsOf("mp4", stating)) ?? NaN, seconds(141), 1e-6, `says ${stated}`)
      }
      assert.strictEqual(yield* reasonOf("mp4", mp4([{}])), "mp4: no samples")
    }),
  )

  it.effect("takes the longest audio track and leaves pictures out", () =>
    Effect.gen(function* () {
      const pictures = { handler: "vide", entry: soundEntry("avc1", 0), samples: frames(400) }
      const file = mp4([{ samples: frames(94) }, pictures, { samples: frames(141) }])
      assert.closeTo((yield* secondsOf("m4a", file)) ?? NaN, seconds(141), 1e-6)
      assert.strictEqual(yield* reasonOf("m4a", mp4([pictures])), "mp4: no audio track found")
    }),
  )

  it.effect("takes the tables if they state more than the frames, up to twice as much", () =>
    Effect.gen(function* () {
      const stating = (ticks: number): Buffer => mp4([{ samples: frames(141), ticks }])
      assert.closeTo((yield* secondsOf("mp4", stating(1536))) ?? NaN, 1.5 * seconds(141), 1e-6)
      assert.closeTo((yield* secondsOf("mp4", stating(2))) ?? NaN, seconds(141), 1e-6)
      assert.match(yield* reasonOf("mp4", stating(4096)), /the tables state more/)
    }),
  )

  it.effect("adds up fragments: sizes of their own, or the movie's default", () =>
    Effect.gen(function* () {
      const head = (defaults: readonly [number, number]): Buffer => mp4([{}], { defaults })
      const data = Buffer.concat(frames(20))
      const own = fragment(1, { flags: 0x300, samples: 2, words: [1024, 4, 1024, 4] }, data.subarray(0, 8))
      const byDefault = fragment(1, { samples: 20 }, data)
      const file = Buffer.concat([head([1024, 4]), byDefault, own, byDefault])
      assert.closeTo((yield* secondsOf("mp4", file)) ?? NaN, seconds(42), 1e-6)
      const boundless = Buffer.concat([head([1024, 4]), fragment(1, { samples: HUGE }, data)])
      assert.closeTo((yield* secondsOf("mp4", boundless)) ?? NaN, seconds(20), 1e-6, "as many as are there")
      yield* ambiguous(Buffer.concat([head([1024, 4]), fragment(9, { samples: 20 }, data)]), /an unknown track/)
      yield* ambiguous(Buffer.concat([head([1024, 0]), byDefault]), /without a size/)
      const cut = fragment(1, { flags: 0x200, samples: HUGE, words: [4, 4] }, data)
      yield* ambiguous(Buffer.concat([head([1024, 4]), cut]), /trun is cut short/)
      yield* ambiguous(Buffer.concat([ftyp, byDefault, head([1024, 4]).subarray(ftyp.length)]), /moof without moov/)
    }),
  )

  it.effect("plays a fragment once that a recorder wrote twice", () =>
    Effect.gen(function* () {
      const timed = (time: Buffer): Buffer => {
        const head = (offset: number): Buffer =>
          box("moof", box("traf", box("tfhd", u32(0x02_0000), u32(1)), time, box("trun", u32(1), u32(94), u32(offset))))
        return Buffer.concat([head(0), head(head(0).length + 8)])
      }
      const moof = (time: Buffer): Buffer => timed(time).subarray(timed(time).length / 2)
      const file = (time: Buffer): Buffer =>
        Buffer.concat([
          mp4([{}], { defaults: [1024, 4] }),
          moof(time),
          moof(time),
          box("mdat", Buffer.concat(frames(94))),
        ])
      assert.closeTo((yield* secondsOf("mp4", file(box("tfdt", u32(0), u32(0))))) ?? NaN, seconds(94), 1e-6)
      yield* ambiguous(file(Buffer.alloc(0)), /there twice/)
    }),
  )

  it.effect("requires the boxes in their places, once, and complete", () =>
    Effect.gen(function* () {
      const track = { samples: frames(141) }
      const moov = mp4([track]).subarray(ftyp.length, -(141 * 4 + 8))
      const hidden = box("stts", Buffer.alloc(4), u32(0))
      for (const parent of ["udta", "tref", "edts"])
        yield* ambiguous(mp4([{ ...track, inTrack: box(parent, hidden) }]), new RegExp(`stts in ${parent}`))
      yield* ambiguous(mp4([{ ...track, inTrack: box("mdia") }]), /without description/)
      yield* ambiguous(mp4([{ ...track, inMedia: box("minf") }]), /a second minf/)
      yield* ambiguous(mp4([track], { inMovie: box("cmov", Buffer.alloc(99)) }), /cmov in moov/)
      yield* ambiguous(mp4([track], { between: moov }), /a second moov/)
      yield* ambiguous(mp4([track, { ...track, id: 1 }]), /tracks of the same number/)
      yield* ambiguous(mp4([track], { inMovie: Buffer.concat([u32(99), Buffer.from("udta")]) }), /does not fit moov/)
      const tables = [stts([HUGE, 1024]), stsz(4, 141), stsc(1, 141, 1)]
      yield* ambiguous(mp4([{ ...track, tables: (at) => [...tables, stco(at), stco(at)] }]), /a second stco/)
      yield* ambiguous(
        mp4([{ ...track, tables: (at) => [...tables, box("stco", Buffer.alloc(4), u32(9), u32(at))] }]),
        /stco is cut short/,
      )
      const anywhere = box("udta", box("meta", Buffer.alloc(4), box("hdlr", Buffer.alloc(25)), box("ilst")), u32(0))
      const other = Buffer.concat([anywhere, box("uuid", Buffer.alloc(40)), box("free")])
      const harmless = mp4([{ ...track, inTrack: other, inMedia: box("elng") }], { inMovie: other, between: other })
      assert.closeTo((yield* secondsOf("mp4", harmless)) ?? NaN, seconds(141), 1e-6)
    }),
  )

  it.effect("requires that each sample is one frame", () =>
    Effect.gen(function* () {
      const eight = Buffer.concat(frames(8))
      const one = Buffer.concat([aacFrame, Buffer.alloc(28)])
      const file = (sample: Buffer): Buffer => mp4([{ samples: Array.from({ length: 141 }, () => sample) }])
      assert.closeTo((yield* secondsOf("mp4", file(one))) ?? NaN, seconds(141), 1e-6, "zeros follow")
      const reason = "mp4: samples that are not one AAC frame each"
      assert.strictEqual(yield* reasonOf("mp4", file(eight)), reason)
      assert.strictEqual(yield* reasonOf("mp4", file(Buffer.alloc(400, 0x5a))), reason)
      const fewer = mp4([{ samples: [...frames(141), eight, eight] }])
      assert.strictEqual(yield* reasonOf("mp4", fewer), reason)
    }),
  )

  it.effect("plays what an edit list plays: less by a delay, or several times", () =>
    Effect.gen(function* () {
      const edited = (...rows: ReadonlyArray<readonly [number, number]>) =>
        Effect.map(secondsOf("mp4", mp4([{ samples: frames(141), inTrack: edits(...rows) }])), (found) => found ?? NaN)
      const ms = seconds(141) * 1000
      assert.closeTo(yield* edited([ms, 1024]), seconds(140), 0.001, "the padding of an encoder")
      assert.closeTo(yield* edited([500, HUGE], [ms, 0]), seconds(141), 0.001, "a later beginning")
      assert.closeTo(yield* edited([1000, 48_000]), seconds(141), 0.001, "much left out")
      assert.closeTo(yield* edited([ms, 0], [ms, 0], [ms, 0]), 3 * seconds(141), 0.001)
      assert.closeTo(yield* edited([1, 0], [1, 0], [1, 0]), 3 * seconds(141), 0.001)
      assert.closeTo(yield* edited([1000, 0], [1000, 96_000]), seconds(145), 0.001, "a part cut out")
    }),
  )

  it.effect("measures other codecs by their packets and refuses those it cannot", () =>
    Effect.gen(function* () {
      const second = (entry: Buffer, sample: Buffer, count: number, ticks: number) =>
        mp4([{ entry, samples: Array.from({ length: count }, () => sample), ticks }])
      const dOps = box("dOps", Buffer.from([0, 1, 0x01, 0x38]), Buffer.alloc(7))
      const cookie = box("alac", Buffer.alloc(4), u32(4096), Buffer.alloc(16), u32(8000))
      const measured = [
        [second(soundEntry("Opus", 48_000, dOps), Buffer.from([0x19, 1, 2, 3]), 20, 5760), 2.4 - 312 / 48_000],
        [second(soundEntry("alac", 8000, cookie), Buffer.alloc(40), 4, 24_576), 4 * 0.512],
        [second(soundEntry("sowt", 8000), Buffer.alloc(16_000), 2, 48_000), 2],
        [second(soundEntry("ac-3", 48_000), Buffer.concat([ac3, ac3]), 30, 3072), 60 * 0.032],
        [second(soundEntry("fLaC", 48_000, dfLa), flacFrame, 12, 4096), (12 * 4096) / 48_000],
      ] as const
      for (const [file, length] of measured) assert.closeTo((yield* secondsOf("mp4", file)) ?? NaN, length, 1e-6)
      for (const format of ["samr", "ms\0\x02", "enca", "sqcp", ".mp1"])
        assert.match(yield* reasonOf("mp4", second(soundEntry(format, 8000), Buffer.alloc(40), 50, 960)), /unsupported/)
      const other = mp4([{ samples: frames(9) }, { handler: "data", entry: aac(48_000), samples: frames(900) }])
      assert.match(yield* reasonOf("mp4", other), /not called sound/)
      const hidden = second(soundEntry("fLaC", 48_000, dfLa), Buffer.concat([flacFrame, flacFrame]), 12, 4096)
      assert.match(yield* reasonOf("mp4", hidden), /not one FLAC frame each/)
    }),
  )

  it("parses every sample that could hide much, even of a file of which it parses some", () => {
    const samples = [
      Buffer.concat([aacFrame, Buffer.alloc(20 * 2 ** 20)]),
      ...frames(30),
      Buffer.concat(frames(50_000)),
      aacFrame,
    ]
    const measured = measureMp4(mp4([{ samples }]), new Work(() => 1))
    let step = measured.next()
    while (step.done !== true) step = measured.next()
    assert.strictEqual("reason" in step.value && step.value.reason, "mp4: samples that are not one AAC frame each")
  })

  it.effect("is unreadable if its samples are scattered, or take long to search for frames", () =>
    Effect.gen(function* () {
      const count = 200_002
      const scattered = (at: number) => {
        const offsets = Buffer.alloc(4 * count)
        for (let index = 0; index < count; index++) offsets.writeUInt32BE(at + count - 1 - index, 4 * index)
        return [stts([count, 1]), stsz(1, count), stsc(1, 1, 1), box("stco", Buffer.alloc(4), u32(count), offsets)]
      }
      const shape = { entry: soundEntry("ulaw", 8000), ticksPerSecond: 8000, tables: scattered }
      assert.match(yield* reasonOf("mp4", mp4([shape], { unused: Buffer.alloc(count, 1) })), /in too many places/)
      const sync = Buffer.alloc(4 * 2 ** 20, Buffer.from([0xff, 0xf8]))
      const flac = mp4([{ entry: soundEntry("fLaC", 48_000, dfLa), samples: [Buffer.concat([flacFrame, sync])] }])
      assert.match(yield* reasonOf("mp4", flac), /too many small parts/)
    }),
  )

  it.effect("is unreadable if another track's description has boxes of sound", () =>
    Effect.gen(function* () {
      const entry = (type: string) =>
        box("stsd", u32(0), u32(1), box("priv", Buffer.alloc(8), box(type, Buffer.alloc(9))))
      const withOther = (type: string) =>
        mp4([{ samples: frames(9) }, { handler: "data", entry: entry(type), samples: frames(900) }])
      for (const type of ["hdlr", "esds", "wave", "alac"])
        assert.match(yield* reasonOf("mp4", withOther(type)), new RegExp(`${type} in priv`))
      assert.closeTo((yield* secondsOf("mp4", withOther("note"))) ?? NaN, seconds(9), 1e-6)
    }),
  )

  it.effect("is unreadable if decoders may prefer another format by its beginning", () =>
    Effect.gen(function* () {
      const movie = mp4([{ samples: frames(9) }])
      const skipped = box("skip", Buffer.alloc(3000))
      for (const file of [Buffer.concat([skipped, movie]), patched(movie, 8, ...Buffer.from("jp2 "))])
        assert.match(yield* reasonOf("mp4", file), /may not take for a movie/)
      const behind = (padding: Buffer) =>
        mp4(
          [
            {
              samples: [],
              tables: (at) => [stts([9, 1024]), stsz(4, 9), stsc(1, 9, 1), stco(at + padding.length + 8)],
            },
          ],
          {
            unused: Buffer.concat(frames(9)),
          },
        )
      const led = (byte: number) => {
        const padding = Buffer.alloc(300_000, byte)
        return Buffer.concat([box("free", padding), behind(padding)])
      }
      assert.closeTo((yield* secondsOf("mp4", led(0))) ?? NaN, seconds(9), 1e-6, "zeros in front")
      assert.match(yield* reasonOf("mp4", led(1)), /belongs to no track/)
    }),
  )

  it.effect("is unreadable if much of it belongs to no track, or to several samples", () =>
    Effect.gen(function* () {
      const track = { samples: frames(5000) }
      assert.match(yield* reasonOf("mp4", mp4([track], { unused: Buffer.alloc(20_000, 1) })), /belongs to no track/)
      const outside = mp4([track], { between: box("uuid", Buffer.alloc(90_000, 1)) })
      assert.match(yield* reasonOf("mp4", outside), /belongs to no track/)
      const room = mp4([track], { between: box("free", Buffer.alloc(900_000, 1)) })
      assert.closeTo((yield* secondsOf("mp4", room)) ?? NaN, seconds(5000), 1e-6, "room for a description")
      const tables = (at: number) => [stts([9000, 1024]), stsz(4, 9000), stsc(1, 3000, 1), stco(at, at, at)]
      yield* ambiguous(mp4([{ ...track, tables }]), /samples that overlap/)
    }),
  )

  it.effect("reads 64-bit sizes, and a size of zero as the rest of the file", () =>
    Effect.gen(function* () {
      const file = mp4([{ samples: frames(141) }])
      const at = file.indexOf("mdat") - 4
      assert.closeTo((yield* secondsOf("mp4", patched(file, at, 0, 0, 0, 0))) ?? NaN, seconds(141), 1e-6)
      const data = file.subarray(at + 8)
      const long = mp4([{ samples: frames(141) }], { between: Buffer.alloc(8) })
      const header = Buffer.concat([u32(1), Buffer.from("mdat"), u32(0), u32(16 + data.length)])
      const longFile = Buffer.concat([long.subarray(0, at), header, data])
      assert.closeTo((yield* secondsOf("mp4", longFile)) ?? NaN, seconds(141), 1e-6)
    }),
  )

  it.effect("lasts as long as its rest when it is truncated, and ends where no box can begin", () =>
    Effect.gen(function* () {
      const file = mp4([{ samples: frames(141) }])
      assert.closeTo((yield* secondsOf("mp4", file.subarray(0, -4 * 47))) ?? NaN, seconds(94), 1e-6)
      for (const size of [2, 7]) {
        const longer = Buffer.concat([file, u32(size), Buffer.from("free"), file])
        assert.closeTo((yield* secondsOf("mp4", longer)) ?? NaN, seconds(141), 1e-6)
      }
      const last = fixture("moov-last.m4a")
      assert.strictEqual(yield* reasonOf("m4a", last.subarray(0, last.length / 2)), "mp4: no audio track found")
      const first = fixture("moov-first.m4a")
      assert.strictEqual(yield* reasonOf("m4a", first.subarray(0, 400)), "mp4: the description is cut short")
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

  it.effect("lasts to the end of its last block, as the packet or the block states it", () =>
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
    }),
  )

  it.effect("takes the longest audio track and leaves pictures out", () =>
    Effect.gen(function* () {
      const blocks = cluster(0, simpleBlock(1, 0), simpleBlock(3, 0), simpleBlock(3, 9000), simpleBlock(1, 980))
      assert.strictEqual(yield* secondsOf("webm", webm([video, opus], blocks)), 1)
      const pictures = cluster(0, simpleBlock(3, 0))
      assert.strictEqual(yield* reasonOf("webm", webm([video], pictures)), "webm: no audio track found")
      assert.strictEqual(yield* reasonOf("webm", webm([video, opus], pictures)), "webm: no audio data")
    }),
  )

  it.effect("is unreadable with blocks of a track that is not described", () =>
    Effect.gen(function* () {
      const blocks = cluster(0, simpleBlock(1, 0), simpleBlock(7, 20), cluster(40, simpleBlock(1, 0)))
      assert.strictEqual(yield* reasonOf("webm", webm([opus], blocks)), "webm: damaged")
      assert.strictEqual(
        yield* reasonOf("webm", webm([opus, { ...opus }], cluster(0, simpleBlock(1, 0)))),
        "webm: ambiguous description",
      )
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

  it.effect("is unreadable when damage precedes further clusters, because decoders search for them", () =>
    Effect.gen(function* () {
      const first = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      for (const damage of [
        Buffer.alloc(50),
        element(0xec, [], Buffer.from([0xff])),
        Buffer.from([0, 0x1f, 0x43, 0xb6, 0x1f, 0x43]),
        element(0xec, [], Buffer.from([1, 0x7f, 255, 255, 255, 255, 255, 0])),
      ]) {
        assert.strictEqual(yield* secondsOf("webm", webm([opus], first, damage)), 1)
        assert.strictEqual(yield* reasonOf("webm", webm([opus], first, damage, first)), "webm: damaged")
      }
    }),
  )

  it.effect("is unreadable with clusters hidden inside other elements", () =>
    Effect.gen(function* () {
      const first = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      for (const id of [0xec, 0x1254c367, 0x1941a469, 0x4444])
        assert.strictEqual(
          yield* reasonOf("webm", webm([opus], first, element(id, first))),
          "webm: media where none belongs",
        )
    }),
  )

  it.effect("plays recordings that were joined, if they have one description", () =>
    Effect.gen(function* () {
      const first = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      const one = webm([opus], first)
      assert.closeTo((yield* secondsOf("webm", Buffer.concat([one, one]))) ?? NaN, 1, 1e-9)
      const other = webm([{ ...opus, number: 2 }], cluster(0, simpleBlock(2, 0)))
      assert.strictEqual(yield* reasonOf("webm", Buffer.concat([one, other])), "webm: ambiguous description")
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

  it.effect("takes the scale of its timestamps from its information alone", () =>
    Effect.gen(function* () {
      const blocks = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      const scale = (value: Buffer): Buffer => element(0x1549a966, element(0x2ad7b1, value))
      assert.strictEqual(yield* secondsOf("webm", webm([opus], element(0x2ad7b1, u32(2_000_000)), blocks)), 1)
      assert.strictEqual(yield* secondsOf("webm", webm([opus], scale(Buffer.from([0])), blocks)), 1)
      assert.strictEqual(yield* secondsOf("webm", webm([opus], scale(u32(2_000_000)), blocks)), 1.98)
    }),
  )

  it.effect("is unreadable with a second scale, or one behind its blocks", () =>
    Effect.gen(function* () {
      const blocks = cluster(0, simpleBlock(1, 0), simpleBlock(1, 980))
      const info = (ticks: number): Buffer => element(0x1549a966, element(0x2ad7b1, u32(ticks)))
      assert.strictEqual(yield* secondsOf("webm", webm([opus], info(1_000_000), blocks, info(1_000_000))), 1)
      for (const parts of [
        [info(1_000_000), blocks, info(1)],
        [blocks, info(1)],
      ])
        assert.strictEqual(yield* reasonOf("webm", webm([opus], ...parts)), "webm: ambiguous description")
    }),
  )

  it.effect("leaves out padding at its end, unless it is longer than the frame", () =>
    Effect.gen(function* () {
      const frame = Buffer.from([0xfc, 1, 2, 3])
      const body = Buffer.concat([Buffer.from([0x81, 0, 20, 0]), frame])
      const padded = (nanoseconds: number): Buffer =>
        element(0xa0, [element(0xa1, body), element(0x75a2, u32(nanoseconds))])
      const file = (nanoseconds: number): Buffer => webm([opus], cluster(0, simpleBlock(1, 0), padded(nanoseconds)))
      assert.strictEqual(yield* secondsOf("webm", file(10_000_000)), 0.03)
      assert.strictEqual(yield* secondsOf("webm", file(21_000_000)), 0.04)
    }),
  )

  it.effect("plays beside subtitles, unless they hide a cluster", () =>
    Effect.gen(function* () {
      const subtitles = { number: 2, type: 17, codec: "D_WEBVTT/SUBTITLES" }
      const file = (text: Buffer): Buffer =>
        webm([opus, subtitles], cluster(0, simpleBlock(1, 0), simpleBlock(2, 0, text), simpleBlock(1, 980)))
      assert.strictEqual(yield* secondsOf("webm", file(Buffer.from("1\n\nhello"))), 1)
      assert.strictEqual(yield* reasonOf("webm", file(cluster(0, simpleBlock(1, 0)))), "webm: media where none belongs")
    }),
  )

  it.effect("measures samples as a browser records them", () =>
    Effect.gen(function* () {
      const float = Buffer.alloc(4)
      float.writeFloatBE(16_000)
      const audio = (bits: number): Buffer =>
        element(0xe1, [element(0xb5, float), element(0x9f, Buffer.from([2])), element(0x6264, Buffer.from([bits]))])
      const samples = cluster(0, simpleBlock(1, 0, Buffer.alloc(64_000)), simpleBlock(1, 500, Buffer.alloc(64_000)))
      const codecs = [
        ["A_PCM/FLOAT/IEEE", 32, 1],
        ["A_PCM/INT/LIT", 16, 2],
        ["A_PCM/INT/BIG", 8, 4],
      ] as const
      for (const [codec, bits, seconds] of codecs)
        assert.strictEqual(yield* secondsOf("webm", webm([{ ...opus, codec, more: audio(bits) }], samples)), seconds)
      const wide = { ...opus, codec: "A_PCM/FLOAT/IEEE", more: audio(128) }
      assert.strictEqual(yield* reasonOf("webm", webm([wide], samples)), "webm: unsupported codec")
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
