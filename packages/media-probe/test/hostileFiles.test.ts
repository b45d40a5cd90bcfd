import { assert, it } from "@effect/vitest"
import type { AudioFormat } from "@kiln/core/domain"
import { Effect } from "effect"
import fc from "fast-check"
import { cluster, fixture, simpleBlock, webm } from "./support/files.ts"
import { probeBytes, secondsOf } from "./support/probe.ts"

const originals: ReadonlyArray<readonly [AudioFormat, string]> = [
  ["wav", "pcm16.wav"],
  ["mp3", "cbr.mp3"],
  ["mp3", "vbr-tagged.mp3"],
  ["m4a", "moov-first.m4a"],
  ["mp4", "fragmented.mp4"],
  ["mp4", "audio-and-video.mp4"],
  ["webm", "opus-live.webm"],
  ["webm", "vorbis.webm"],
]

/** Numbers that break parsers, at any offset, often near the beginning where the structure is; and truncations. */
const edits = fc.array(
  fc.record({
    at: fc.oneof(fc.nat(600), fc.nat(30_000)),
    bytes: fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 9 }),
      fc.constantFrom(
        [0, 0, 0, 0],
        [255, 255, 255, 255],
        [0, 0, 0, 1],
        [127, 255, 255, 255],
        [1, 255, 255, 255, 255, 255, 255, 255],
      ),
    ),
  }),
  { minLength: 1, maxLength: 12 },
)
/** A piece of the file, copied elsewhere once or repeatedly. */
const splice = fc.option(
  fc.record({ from: fc.nat(20_000), bytes: fc.nat(4000), to: fc.nat(20_000), times: fc.integer({ min: 1, max: 5 }) }),
)
const cut = fc.oneof(fc.constant(Infinity), fc.nat(30_000))

const spliced = (file: Buffer, piece: typeof splice extends fc.Arbitrary<infer A> ? A : never): Buffer => {
  if (piece === null) return Buffer.from(file)
  const { bytes, from, times, to } = piece
  const copies = Array.from({ length: times }, () => file.subarray(from, from + bytes))
  return Buffer.concat([file.subarray(0, to), ...copies, file.subarray(to)])
}

it("no edit of a file makes the probe hang, die, or return anything but a duration", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...originals),
      edits,
      cut,
      splice,
      fc.integer({ min: 1, max: 5000 }),
      async ([format, name], changes, length, moved, chunkBytes) => {
        const file = spliced(fixture(name), moved).subarray(0, length)
        for (const { at, bytes } of changes)
          file.set([...bytes].slice(0, Math.max(0, file.length - at)), Math.min(at, file.length))
        const outcome = (chunk: number) =>
          Effect.runPromise(
            probeBytes(format, file, chunk).pipe(
              Effect.map(({ seconds }) => seconds),
              Effect.catchTag("MediaUnreadable", ({ reason }) => Effect.succeed(reason)),
            ),
          )
        const whole = await outcome(Math.max(1, file.length))
        if (typeof whole === "number") assert.isTrue(whole >= 0 && whole < Infinity, `${whole}`)
        assert.strictEqual(await outcome(chunkBytes), whole, "the chunks matter")
      },
    ),
    { numRuns: 400 },
  )
})

it("arbitrary bytes after a valid header neither hang nor kill the probe", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...originals),
      fc.nat(2000),
      fc.uint8Array({ maxLength: 3000 }),
      async ([format, name], headBytes, bytes) => {
        const file = Buffer.concat([fixture(name).subarray(0, headBytes), bytes])
        await Effect.runPromise(Effect.ignore(probeBytes(format, file)))
      },
    ),
    { numRuns: 300 },
  )
})

it("whatever times the boxes of an MP4 state, it measures at least half of its frames, or nothing", async () => {
  const file = fixture("moov-first.m4a")
  const fields = ["mvhd", "tkhd", "mdhd", "stts", "elst"].map((type) => ({
    at: file.indexOf(type) + (type === "stts" ? 8 : type === "tkhd" ? 20 : 12),
    bytes: type === "stts" ? 12 : 8,
  }))
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom(...fields), fc.uint8Array({ minLength: 8, maxLength: 12 }))),
      async (changes) => {
        const forged = Buffer.from(file)
        for (const [{ at, bytes }, values] of changes) forged.set(values.subarray(0, bytes), at)
        const measured = Effect.catchTag(secondsOf("m4a", forged), "MediaUnreadable", () => Effect.succeed(Infinity))
        assert.isAtLeast((await Effect.runPromise(measured)) ?? 0, 2.56 / 2)
      },
    ),
    { numRuns: 200 },
  )
})

it("whatever times the blocks of a WebM state, it measures at least half of its packets", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(0xffff_ffff), fc.integer({ min: -32_768, max: 32_767 })), {
        minLength: 12,
        maxLength: 200,
      }),
      async (times) => {
        const clusters = times.map(([tick, offset]) => cluster(tick, simpleBlock(1, offset)))
        const seconds = await Effect.runPromise(
          secondsOf("webm", webm([{ number: 1, type: 2, codec: "A_OPUS" }], ...clusters)),
        )
        assert.isAtLeast(seconds ?? 0, times.length * 0.02 * 0.5)
      },
    ),
    { numRuns: 200 },
  )
})
