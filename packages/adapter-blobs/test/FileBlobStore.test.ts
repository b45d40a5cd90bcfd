import { existsSync } from "node:fs"
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { bytes, content, drain, EMPTY, LIMIT, nextTurn, onFiles, tree } from "./support/files.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

describe("interruption", () => {
  it.effect("between the rename and its sync removes the blob again", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        let interrupted = 0
        for (let n = 0; n < 40; n++) {
          const fiber = yield* Effect.forkChild(store.put(`a/${n}/b`, content, LIMIT))
          while (!existsSync(join(directory, `blobs/a/shard-00/${n}.b.blob`)) && fiber.pollUnsafe() === undefined)
            yield* nextTurn
          yield* Fiber.interrupt(fiber)
          if (Exit.isSuccess(yield* Fiber.await(fiber))) continue
          interrupted++
          expect((yield* Effect.flip(store.open(`a/${n}/b`)))._tag).toBe("BlobNotFound")
        }
        expect(interrupted).toBeGreaterThan(0)
        expect((yield* tree(directory)).filter((path) => /blob$|part$/.test(path))).toEqual([])
      }),
    ),
  )
})

describe("the directory", () => {
  it.effect("holds the bytes unchanged, readable by their owner only", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/output", content, LIMIT)
        expect(yield* tree(directory)).toEqual(
          [...EMPTY, "blobs/jobs/", "blobs/jobs/shard-00/", "blobs/jobs/shard-00/a.1.output.blob"].sort(),
        )
        const file = yield* Effect.promise(() => readFile(join(directory, "blobs/jobs/shard-00/a.1.output.blob")))
        expect(file.subarray(0, -64).equals(bytes)).toBe(true)
        for (const path of yield* tree(directory)) {
          const { mode } = yield* Effect.promise(() => stat(join(directory, path)))
          expect(mode & 0o777, path).toBe(path.endsWith("/") ? 0o700 : 0o600)
        }
      }),
    ),
  )

  it.effect("holds nothing after failed puts, not even directories", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* Effect.flip(store.put("a/b/c", Stream.concat(content, Stream.fail("reset")), LIMIT))
        expect(yield* tree(directory)).toEqual(EMPTY)
        yield* Effect.flip(store.put("a/b/c", content, { maxBytes: bytes.length - 1 }))
        expect(yield* tree(directory)).toEqual(EMPTY)
        const waiting = yield* Deferred.make<void>()
        const stalled = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(waiting, undefined), Effect.never))
        const fiber = yield* Effect.forkChild(store.put("a/b/c", Stream.concat(content, stalled), LIMIT))
        yield* Deferred.await(waiting)
        expect(yield* tree(directory)).toHaveLength(EMPTY.length + 1)
        yield* Fiber.interrupt(fiber)
        expect(yield* tree(directory)).toEqual(EMPTY)
      }),
    ),
  )

  it.effect("keeps its shards, which puts share, when blobs are removed", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/output", content, LIMIT)
        yield* store.put("jobs/b/1/output", content, LIMIT)
        yield* store.remove("jobs/a/1/output")
        const shard = [...EMPTY, "blobs/jobs/", "blobs/jobs/shard-00/"]
        expect(yield* tree(directory)).toEqual([...shard, "blobs/jobs/shard-00/b.1.output.blob"].sort())
        yield* store.remove("jobs/b")
        expect(yield* tree(directory)).toEqual([...shard].sort())
      }),
    ),
  )

  it.effect("may hold foreign files", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        const keys = ["a/b", "a/b/1/c"]
        for (const key of keys) yield* store.put(key, content, LIMIT)
        yield* Effect.promise(async () => {
          for (const place of ["blobs/a", "blobs/a/shard-00"])
            for (const name of [
              "README.txt",
              "B.blob",
              "b.blob~",
              ".blob",
              "b.1.C.blob",
              "b..c.blob",
              "b.1.c.blob.bak",
            ])
              await writeFile(join(directory, place, name), "")
        })
        expect([...(yield* Stream.runCollect(store.list("a")))].toSorted()).toEqual(keys)
        expect(yield* Stream.runCollect(store.list("a/b"))).toEqual(["a/b/1/c"])
        const kept = (yield* tree(directory)).length - keys.length
        yield* store.remove("a/b")
        // No foreign file goes with the blobs.
        expect(yield* tree(directory)).toHaveLength(kept)
      }),
    ),
  )

  it.effect("may lose empty directories to an external cleanup while in use", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* Effect.promise(() => rm(join(directory, "tmp"), { recursive: true }))
        yield* store.put("a/b", content, LIMIT)
        yield* drain(store, "a/b")
      }),
    ),
  )

  it.live("loses temporary files without writes for an hour when a store starts, and keeps younger ones", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const aged = (name: string, minutes: number) =>
        Effect.promise(async () => {
          await mkdir(join(directory, "tmp"), { recursive: true })
          await writeFile(join(directory, "tmp", name), "left")
          const at = Date.now() / 1000 - minutes * 60
          await utimes(join(directory, "tmp", name), at, at)
        })
      const nameOf = (key: string) => `${key}.00000000-0000-4000-8000-000000000000.part`
      yield* aged(nameOf("jobs.a.1.audio"), 61)
      yield* aged(nameOf("jobs.b.1.audio"), 59)
      // As in the directory of someone whose browser keeps unfinished downloads there.
      yield* aged("other", 1000)
      yield* aged("download.part", 1000)
      yield* aged("jobs.a.1.audio.part", 1000)
      yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
      const kept = [nameOf("jobs.b.1.audio"), "other", "download.part", "jobs.a.1.audio.part"]
      const left = (yield* tree(directory)).filter((path) => path.startsWith("tmp/"))
      expect(left).toEqual(["tmp/", ...kept.map((name) => `tmp/${name}`).toSorted()])
    }),
  )
})

describe("descriptors", () => {
  const openDescriptors = Effect.promise(async () => (await readdir("/proc/self/fd")).length)

  // They are counted in /proc, which exists only on Linux.
  it.effect.skipIf(process.platform !== "linux")("are closed however a read or a put ends", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        yield* Effect.promise(() => writeFile(join(directory, "blobs/a/damaged.blob"), "?"))
        const before = yield* openDescriptors
        for (let n = 0; n < 20; n++) {
          const { content: reading } = yield* store.open("a/b")
          yield* Stream.runDrain(Stream.take(reading, n % 3))
          yield* Effect.flip(Stream.runForEach(reading, () => Effect.fail("reader failed")))
          const stopped = yield* Deferred.make<void>()
          const stall = () => Effect.andThen(Deferred.succeed(stopped, undefined), Effect.never)
          const reader = yield* Effect.forkChild(Stream.runForEach(reading, stall))
          yield* Deferred.await(stopped)
          yield* Fiber.interrupt(reader)
          // At a different moment each time, perhaps in the middle of a system call.
          const racer = yield* Effect.forkChild(Effect.exit(Stream.runDrain(reading)))
          for (let turn = 0; turn < n; turn++) yield* nextTurn
          yield* Fiber.interrupt(racer)
          yield* Effect.flip(store.open("a/damaged"))
          yield* Effect.flip(store.open("a/nothing"))
          yield* Effect.flip(store.put("a/c", Stream.concat(content, Stream.fail("reset")), LIMIT))
          yield* Stream.runDrain(Stream.take(store.list("a"), 1))
        }
        expect(yield* openDescriptors).toBe(before)
      }),
    ),
  )
})

describe("arguments", () => {
  it.effect("that are invalid are defects", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const verbs = [
          store.put("a/c", content, { maxBytes: Number.NaN }),
          store.put("a/c", content, { maxBytes: -1 }),
          store.open("a/b", { offset: -1 }),
          store.open("a/b", { offset: 0.5 }),
          store.open("a/b", { offset: 0, length: Number.NaN }),
        ]
        for (const verb of verbs) {
          const exit = yield* Effect.exit<unknown, unknown, never>(verb)
          expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
        }
        expect(yield* tree(directory)).toEqual([...EMPTY, "blobs/a/", "blobs/a/b.blob"].sort())
      }),
    ),
  )

  it.effect("chunks are at most 64 KiB when read", () =>
    onFiles((store) =>
      Effect.gen(function* () {
        yield* store.put("a/b", Stream.succeed(bytes), LIMIT)
        const opened = yield* store.open("a/b", { offset: 10 })
        const sizes = yield* Stream.runCollect(Stream.map(opened.content, (chunk) => chunk.length))
        expect(sizes).toEqual([65_536, 65_536, 65_536, 3_382])
      }),
    ),
  )
})

describe("an unusable directory", () => {
  it.effect("cannot be created: the store does not start", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* Effect.promise(() => writeFile(join(directory, "file"), ""))
      const layer = FileBlobStore.layer({ directory: join(directory, "file/below") })
      expect(yield* Effect.flip(Effect.provide(BlobStore, layer))).toMatchObject({
        _tag: "BlobUnavailable",
        operation: "start",
      })
    }),
  )

  it.effect("is missing where a link leads to a disk that is not mounted", () =>
    Effect.gen(function* () {
      const disk = join(yield* temporaryDirectory, "disk")
      yield* Effect.promise(() => symlink(`${disk}-mount`, disk))
      const start = Effect.provide(BlobStore, FileBlobStore.layer({ directory: disk }))
      expect(yield* Effect.flip(start)).toMatchObject({ _tag: "BlobUnavailable", cause: { code: "ENOENT" } })
    }),
  )

  it.effect("has files where directories belong: BlobUnavailable from each verb, nothing readable", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* Effect.promise(() => writeFile(join(directory, "blobs/a"), ""))
        expect((yield* Effect.flip(store.put("a/b", content, LIMIT)))._tag).toBe("BlobUnavailable")
        expect((yield* Effect.flip(store.open("a/b")))._tag).toBe("BlobUnavailable")
        expect((yield* Effect.flip(Stream.runDrain(store.list("a"))))._tag).toBe("BlobUnavailable")
        expect(yield* tree(directory)).toEqual([...EMPTY, "blobs/a"].sort())
      }),
    ),
  )

  // Root can write everywhere; the fault tests mount a read-only file system for root.
  it.effect.skipIf(process.getuid?.() === 0)(
    "is read-only (not for root): BlobUnavailable from each verb that writes",
    () =>
      onFiles((store, directory) =>
        Effect.gen(function* () {
          yield* store.put("a/b", content, LIMIT)
          const setMode = (mode: number) =>
            Effect.promise(async () => {
              for (const part of ["tmp", "blobs", "blobs/a"]) await chmod(join(directory, part), mode)
            })
          yield* setMode(0o500)
          expect((yield* Effect.flip(store.put("a/c", content, LIMIT)))._tag).toBe("BlobUnavailable")
          expect((yield* Effect.flip(store.remove("a/b")))._tag).toBe("BlobUnavailable")
          yield* drain(store, "a/b")
          yield* setMode(0o700)
        }),
      ),
  )
})
