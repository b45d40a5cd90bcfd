import { existsSync } from "node:fs"
import { chmod, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { bytes, content, drain, EMPTY, LIMIT, nextTurn, onFiles, tree } from "./support/files.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

describe("interruption", () => {
  it.effect("between the rename and its durability takes the blob away again", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        let interrupted = 0
        for (let n = 0; n < 40; n++) {
          const fiber = yield* Effect.forkChild(store.put(`a/${n}/b`, content, LIMIT))
          while (!existsSync(join(directory, `blobs/a/${n}/b.blob`)) && fiber.pollUnsafe() === undefined)
            yield* nextTurn
          yield* Fiber.interrupt(fiber)
          if (Exit.isSuccess(yield* Fiber.await(fiber))) continue
          interrupted++
          expect((yield* Effect.flip(store.open(`a/${n}/b`)))._tag).toBe("BlobNotFound")
        }
        expect(interrupted).toBeGreaterThan(0)
        yield* store.remove("a")
        expect(yield* tree(directory)).toEqual(EMPTY)
      }),
    ),
  )
})

describe("the directory", () => {
  it.effect("holds the bytes as they are, readable by their owner only", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/output", content, LIMIT)
        expect(yield* tree(directory)).toEqual(
          [...EMPTY, "blobs/jobs/", "blobs/jobs/a/", "blobs/jobs/a/1/", "blobs/jobs/a/1/output.blob"].sort(),
        )
        const file = yield* Effect.promise(() => readFile(join(directory, "blobs/jobs/a/1/output.blob")))
        expect(file.subarray(0, -64).equals(bytes)).toBe(true)
        for (const path of yield* tree(directory)) {
          const { mode } = yield* Effect.promise(() => stat(join(directory, path)))
          expect(mode & 0o777, path).toBe(path.endsWith("/") ? 0o700 : 0o600)
        }
      }),
    ),
  )

  it.effect("holds nothing after puts that did not end well, not even directories", () =>
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
        expect(yield* tree(directory)).toHaveLength(3)
        yield* Fiber.interrupt(fiber)
        expect(yield* tree(directory)).toEqual(EMPTY)
      }),
    ),
  )

  it.effect("loses its empty directories when blobs are removed, and no others", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/output", content, LIMIT)
        yield* store.put("jobs/b/1/output", content, LIMIT)
        yield* store.remove("jobs/a/1/output")
        expect(yield* tree(directory)).toEqual(
          [...EMPTY, "blobs/jobs/", "blobs/jobs/b/", "blobs/jobs/b/1/", "blobs/jobs/b/1/output.blob"].sort(),
        )
        yield* store.remove("jobs/b")
        expect(yield* tree(directory)).toEqual(EMPTY)
      }),
    ),
  )

  it.effect("may hold what others copied there", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        yield* Effect.promise(async () => {
          for (const name of ["README.txt", "B.blob", "b.blob~", ".blob"])
            await writeFile(join(directory, "blobs/a", name), "")
        })
        expect(yield* Stream.runCollect(store.list("a"))).toEqual(["a/b"])
      }),
    ),
  )

  it.effect("may be tidied up by somebody while it is in use", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        for (const part of ["tmp", "blobs"]) yield* Effect.promise(() => rm(join(directory, part), { recursive: true }))
        yield* store.put("a/b", content, LIMIT)
        yield* drain(store, "a/b")
      }),
    ),
  )

  it.live("loses temporary files that nobody wrote to for an hour when a store starts, and keeps younger ones", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const aged = (name: string, minutes: number) =>
        Effect.promise(async () => {
          await mkdir(join(directory, "tmp"), { recursive: true })
          await writeFile(join(directory, "tmp", name), "left")
          const at = Date.now() / 1000 - minutes * 60
          await utimes(join(directory, "tmp", name), at, at)
        })
      yield* aged("old.part", 61)
      yield* aged("young.part", 59)
      yield* aged("other", 1000)
      yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
      expect(yield* tree(directory)).toEqual(["blobs/", "tmp/", "tmp/other", "tmp/young.part"])
    }),
  )
})

describe("descriptors", () => {
  const openDescriptors = Effect.promise(async () => (await readdir("/proc/self/fd")).length)

  // They are counted in /proc, which other systems do not have.
  it.effect.skipIf(process.platform !== "linux")("are closed whatever becomes of a read or a put", () =>
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
          // At a moment that is different each time, in the middle of a system call perhaps.
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
  it.effect("that cannot be meant are defects", () =>
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

  it.effect("chunks that are read are 64 KiB at most", () =>
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

describe("a directory that does not work", () => {
  it.effect("cannot be made: the store does not start", () =>
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

  // Root may write everywhere: for root, the fault tests mount a read-only file system.
  it.effect.skipIf(process.getuid?.() === 0)("is read-only (not for root): BlobUnavailable from what writes", () =>
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
