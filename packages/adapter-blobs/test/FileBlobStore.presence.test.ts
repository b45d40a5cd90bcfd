import { mkdir, rename, rm } from "node:fs/promises"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { BlobStore } from "@kiln/core/ports"
import { FileBlobStore } from "../src/index.ts"
import { content, drain, LIMIT, tree } from "./support/files.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const run = (work: () => Promise<unknown>) => Effect.promise(work)

/** Every operation, each of which must fail while the directory is gone. */
const operations = (store: BlobStore["Service"]): ReadonlyArray<Effect.Effect<void, unknown>> => [
  Effect.asVoid(store.put("jobs/b/1/output", content, LIMIT)),
  Effect.asVoid(store.open("jobs/a/1/output")),
  Effect.asVoid(store.open("jobs/missing/1/output")),
  store.remove("jobs/a"),
  Effect.asVoid(Stream.runCollect(store.list("jobs"))),
  store.checkPresence ?? Effect.void,
]

const expectGone = Effect.fnUntraced(function* (store: BlobStore["Service"], message: RegExp) {
  for (const operation of operations(store)) {
    const error = yield* Effect.flip(operation)
    expect(error).toMatchObject({ _tag: "BlobUnavailable", message: expect.stringMatching(message) })
  }
})

const opened = Effect.gen(function* () {
  const directory = join(yield* temporaryDirectory, "store")
  const store = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
  yield* store.put("jobs/a/1/output", content, LIMIT)
  return { directory, store, away: `${directory}-away` }
})

describe("a directory that is gone", () => {
  it.live("is not created again: every operation fails until it is back", () =>
    Effect.gen(function* () {
      const { away, directory, store } = yield* opened
      yield* run(() => rename(directory, away))
      yield* expectGone(store, /the blob store .* is gone: mount its disk or move it back/)
      expect(existsSync(directory)).toBe(false)
      yield* run(() => rename(away, directory))
      yield* drain(store, "jobs/a/1/output")
      yield* store.put("jobs/b/1/output", content, LIMIT)
    }),
  )

  for (const [what, parts] of [
    ["an empty one", []],
    ["one with the same names", ["blobs", "tmp"]],
  ] as const)
    it.live(`is not replaced by ${what} in its place`, () =>
      Effect.gen(function* () {
        const { away, directory, store } = yield* opened
        yield* run(() => rename(directory, away))
        yield* run(() => mkdir(directory))
        for (const part of parts) yield* run(() => mkdir(join(directory, part)))
        const before = yield* tree(directory)
        yield* expectGone(store, /is gone: mount its disk|is not the blob store that this process opened/)
        expect(yield* tree(directory)).toEqual(before)
        yield* run(() => rm(directory, { recursive: true }))
        yield* run(() => rename(away, directory))
        yield* drain(store, "jobs/a/1/output")
      }),
    )

  it.live("that comes back on another disk, with its content, is the same one", () =>
    Effect.gen(function* () {
      const { directory, store } = yield* opened
      const { cp } = yield* Effect.promise(() => import("node:fs/promises"))
      yield* run(() => cp(directory, `${directory}-copy`, { recursive: true }))
      yield* run(() => rm(directory, { recursive: true }))
      yield* run(() => rename(`${directory}-copy`, directory))
      yield* drain(store, "jobs/a/1/output")
      yield* store.put("jobs/b/1/output", content, LIMIT)
    }),
  )
})
