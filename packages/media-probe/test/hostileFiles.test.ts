import { assert, it } from "@effect/vitest"
import type { AudioFormat } from "@kiln/core/domain"
import { Effect } from "effect"
import fc from "fast-check"
import { fixture } from "./support/files.ts"
import { probeBytes } from "./support/probe.ts"

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

/** Numbers that break parsers, at any place, often near the beginning where the structure is; and cuts. */
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
const cut = fc.oneof(fc.constant(Infinity), fc.nat(30_000))

it("no edit of a file makes the probe hang, die, or measure anything but a length", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...originals),
      edits,
      cut,
      fc.integer({ min: 1, max: 5000 }),
      async ([format, name], changes, length, chunkBytes) => {
        const file = Buffer.from(fixture(name)).subarray(0, length)
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
