import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { type AudioFormat, BlobCorrupt, BlobUnavailable, audioFormats } from "@kiln/core/domain"
import { Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { parseBuffer } from "music-metadata"
import { fixture } from "./support/files.ts"
import { probeBytes, probeStream, reasonOf, secondsOf } from "./support/probe.ts"

/** Recordings, their declared format, and their duration: encoders pad, so up to 0.1 s more than was recorded. */
const recordings: ReadonlyArray<readonly [name: string, format: AudioFormat, seconds: number]> = [
  ["pcm16.wav", "wav", 1.2],
  ["float32.wav", "wav", 1],
  ["cbr.mp3", "mp3", 2.5],
  ["vbr-tagged.mp3", "mp3", 2.5],
  ["vbr-without-xing.mp3", "mp3", 2.5339],
  ["moov-first.m4a", "m4a", 2.56],
  ["moov-last.m4a", "m4a", 2.56],
  ["fragmented.mp4", "mp4", 2.624],
  ["audio-and-video.mp4", "mp4", 1.536],
  ["opus.webm", "webm", 2.5],
  ["opus-live.webm", "webm", 2.5],
  ["vorbis.webm", "webm", 2.506],
]

describe.each(recordings)("%s", (name, format, seconds) => {
  it.effect("is measured", () =>
    Effect.gen(function* () {
      const measured = yield* secondsOf(format, fixture(name))
      assert.closeTo(measured ?? NaN, seconds, 0.001)
    }),
  )

  it.effect("measures the same for any chunk size", () =>
    Effect.gen(function* () {
      const whole = yield* secondsOf(format, fixture(name))
      for (const chunkBytes of [1, 7, 4096, 16_385])
        assert.strictEqual(yield* secondsOf(format, fixture(name), chunkBytes), whole)
    }),
  )

  it.effect("is unreadable under another container's name", () =>
    Effect.gen(function* () {
      const mp4Family: ReadonlySet<AudioFormat> = new Set(["mp4", "m4a"])
      for (const other of audioFormats) {
        if (other === format || (mp4Family.has(other) && mp4Family.has(format))) yield* probeBytes(other, fixture(name))
        else assert.match(yield* reasonOf(other, fixture(name)), new RegExp(`^declared as ${other}, but the file is `))
      }
    }),
  )

  it.effect("measures the same as music-metadata, if that finds a duration", () =>
    Effect.gen(function* () {
      const { format: other } = yield* Effect.promise(() => parseBuffer(fixture(name), undefined, { duration: true }))
      // It finds no duration in recordings without a header that states one, and trusts the header of the others.
      if (name === "opus-live.webm") return assert.isUndefined(other.duration)
      // It counts the delay and padding that encoders add.
      assert.closeTo((yield* secondsOf(format, fixture(name))) ?? NaN, other.duration ?? NaN, 0.1)
    }),
  )

  it.effect("measures the same as ffprobe", (context) =>
    Effect.gen(function* () {
      if (spawnSync("ffprobe", ["-version"]).status !== 0)
        return context.skip("ffprobe is not installed; music-metadata has checked the same files")
      const path = fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
      const run = spawnSync("ffprobe", [
        "-v",
        "error",
        "-select_streams",
        "a",
        "-show_entries",
        "packet=pts_time,duration_time",
        "-of",
        "csv=p=0",
        path,
      ])
      const packets = run.stdout
        .toString()
        .trim()
        .split("\n")
        .map((line) => line.split(",").map(Number))
      const [first = [], last = []] = [packets[0], packets.at(-1)]
      const playing = (last[0] ?? NaN) + (last[1] || 0) - (first[0] ?? NaN)
      assert.closeTo((yield* secondsOf(format, fixture(name))) ?? NaN, playing, format === "mp3" ? 0.1 : 0.06)
    }),
  )
})

describe("content that is not audio", () => {
  const png = Buffer.from("89504e470d0a1a0a0000000d4948445200000001000000010806", "hex")
  const noise = Buffer.from(Array.from({ length: 50_000 }, (_, i) => (i * 2_654_435_761) >>> 24))
  const files: ReadonlyArray<readonly [string, Buffer]> = [
    ["nothing", Buffer.alloc(0)],
    ["one byte", Buffer.from([0xff])],
    ["a png", png],
    ["text", Buffer.from("Hello, this is not a recording. ".repeat(3000))],
    ["zeros", Buffer.alloc(70_000)],
    ["ones", Buffer.alloc(70_000, 0xff)],
    ["noise", noise],
  ]

  it.effect.each(files)("%s is unreadable in every format", ([, file]) =>
    Effect.gen(function* () {
      for (const format of audioFormats) assert.isString(yield* reasonOf(format, file))
    }),
  )

  it.effect("the first bytes of a container alone are not sufficient", () =>
    Effect.gen(function* () {
      for (const [name, format] of recordings) {
        const reason = Effect.map(Effect.exit(reasonOf(format, fixture(name).subarray(0, 64))), Exit.isSuccess)
        // A WAV with 44 bytes of header, and 20 bytes of audio.
        assert.strictEqual(yield* reason, name !== "pcm16.wav", name)
      }
    }),
  )

  it.effect("video without sound is unreadable", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* reasonOf("mp4", fixture("video-only.mp4")), "mp4: no audio track found")
      assert.strictEqual(yield* reasonOf("webm", fixture("video-only.webm")), "webm: no audio track found")
    }),
  )
})

describe("the content stream", () => {
  const junk = new Uint8Array(200_000)
  const faults = [
    new BlobUnavailable({ operation: "read", cause: new Error("gone") }),
    new BlobCorrupt({ key: "uploads/1/1" }),
  ]

  it.effect("passes through its errors, wherever they occur", () =>
    Effect.gen(function* () {
      for (const fault of faults)
        for (const [name, format] of recordings)
          for (const bytes of [0, 30, 5000, Infinity]) {
            const content = Stream.concat(Stream.make(fixture(name).subarray(0, bytes)), Stream.fail(fault))
            assert.strictEqual(yield* Effect.flip(probeStream(format, content)), fault, `${name} after ${bytes}`)
          }
    }),
  )

  it.effect(
    "is read to its end even if the file is clearly not audio, because a damaged blob is not the caller's fault",
    () =>
      Effect.gen(function* () {
        for (const fault of faults) {
          const content = Stream.make(junk).pipe(Stream.concat(Stream.make(junk)), Stream.concat(Stream.fail(fault)))
          assert.strictEqual(yield* Effect.flip(probeStream("wav", content)), fault)
        }
      }),
  )

  it.effect("may be slow, but a stall of 30 seconds is reported as the store's fault", () =>
    Effect.gen(function* () {
      const file = fixture("cbr.mp3")
      const slow = Stream.make(file.subarray(0, 4000), file.subarray(4000)).pipe(
        Stream.tap(() => Effect.sleep("29 seconds")),
      )
      const slowProbe = yield* Effect.forkChild(probeStream("mp3", slow), { startImmediately: true })
      yield* TestClock.adjust("29 seconds")
      yield* TestClock.adjust("29 seconds")
      assert.closeTo((yield* Fiber.join(slowProbe)).seconds ?? NaN, 2.5, 0.001)

      const stalled = Stream.concat(Stream.make(file.subarray(0, 4000)), Stream.never)
      const stalledProbe = yield* Effect.forkChild(Effect.flip(probeStream("mp3", stalled)), { startImmediately: true })
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual((yield* Fiber.join(stalledProbe))._tag, "BlobUnavailable")
    }),
  )

  it.effect("is closed when the probe is interrupted", () =>
    Effect.gen(function* () {
      let closed = false
      const opened = yield* Deferred.make<void>()
      const content = Stream.make(junk).pipe(
        Stream.concat(Stream.fromEffect(Deferred.succeed(opened, undefined)).pipe(Stream.drain)),
        Stream.concat(Stream.never),
        Stream.ensuring(Effect.sync(() => (closed = true))),
      )
      const fiber = yield* Effect.forkChild(probeStream("mp3", content))
      yield* Deferred.await(opened)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      assert.isTrue(closed)
    }),
  )

  it.effect("yields to other fibers, even when the whole file arrives as one chunk", () =>
    Effect.gen(function* () {
      const chunks = 1_000_000
      let turns = 0
      let probing = true
      const count = () => {
        turns++
        if (probing) setImmediate(count)
      }
      setImmediate(count)
      yield* probeBytes("wav", Buffer.concat([fixture("pcm16.wav"), Buffer.alloc(8 * chunks, "JUNK\0\0\0\0")]))
      probing = false
      assert.isAtLeast(turns, 3)
    }),
  )
})

it.effect("fails if the content is longer than stated, and does not keep it", () =>
  Effect.gen(function* () {
    const content = Stream.fromIterable([new Uint8Array(100), new Uint8Array(100)])
    const failure = yield* Effect.flip(probeStream("wav", content, 150))
    assert.strictEqual(failure._tag, "BlobUnavailable")
  }),
)

it.effect("refuses a length that is not one", () =>
  Effect.gen(function* () {
    for (const bytes of [Number.NaN, -1, 1.5, 26_214_401])
      assert.isTrue(Exit.isFailure(yield* Effect.exit(probeStream("wav", Stream.empty, bytes))))
    assert.strictEqual(yield* reasonOf("wav", fixture("cbr.mp3")), "declared as wav, but the file is mp3")
  }),
)
