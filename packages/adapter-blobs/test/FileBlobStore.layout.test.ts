import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { content, drain, EMPTY, LIMIT, onFiles, tree } from "./support/files.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const job = "01k4xq7czkf0a8r2m3n4p5q6r7"
const files = (directory: string) =>
  Effect.map(tree(directory), (paths) => paths.filter((path) => path.endsWith(".blob")))
const listed = (store: BlobStore["Service"], prefix: string) =>
  Effect.map(Stream.runCollect(store.list(prefix)), (keys) => [...keys].toSorted())

/** Moves every blob to where versions before shards stored it. */
const nest = (directory: string) =>
  Effect.promise(async () => {
    for (const root of await readdir(join(directory, "blobs")))
      for (const shard of root.startsWith(".") ? [] : await readdir(join(directory, "blobs", root)))
        for (const name of shard.startsWith("shard-") ? await readdir(join(directory, "blobs", root, shard)) : []) {
          const key = `${root}/${name.slice(0, -".blob".length).replaceAll(".", "/")}`
          await mkdir(join(directory, "blobs", dirname(key)), { recursive: true })
          await rename(join(directory, "blobs", root, shard, name), join(directory, "blobs", `${key}.blob`))
        }
    for (const root of await readdir(join(directory, "blobs")))
      for (const shard of root.startsWith(".") ? [] : await readdir(join(directory, "blobs", root)))
        if (shard.startsWith("shard-")) await rm(join(directory, "blobs", root, shard), { recursive: true })
  })

describe("the layout", () => {
  it.effect("has one file per key in a shard named by the second of its id; short keys are files of their name", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        for (const key of [
          `jobs/${job}/12/audio`,
          `uploads/${job}/3`,
          "lineage/0000000001/ab",
          "installation/0f",
          "top",
        ])
          yield* store.put(key, content, LIMIT)
        expect(yield* files(directory)).toEqual([
          "blobs/installation/0f.blob",
          `blobs/jobs/shard-7c/${job}.12.audio.blob`,
          "blobs/lineage/shard-00/0000000001.ab.blob",
          "blobs/top.blob",
          `blobs/uploads/shard-7c/${job}.3.blob`,
        ])
      }),
    ),
  )

  it.effect("has names that every file system tells apart and accepts", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        // The longest key that a store must accept, and names that Windows reserves.
        const keys = [
          `jobs/${job}/1/${"x".repeat(166)}`,
          `jobs/${job}/1/con`,
          `jobs/${job}/1/aux/nul`,
          `jobs/${job}/9999999999/a`,
        ]
        for (const key of keys) yield* store.put(key, content, LIMIT)
        for (const path of yield* files(directory)) {
          expect(path).toBe(path.toLowerCase())
          const parts = path.split("/")
          expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(256)
          for (const part of parts) expect(part).not.toMatch(/^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|[. ]$|[<>:"|?*\\]/)
        }
        expect(yield* listed(store, "jobs")).toEqual(keys.toSorted())
      }),
    ),
  )
})

describe("blobs that an older version stored in nested directories", () => {
  const keys = [
    `jobs/${job}/1/audio`,
    `jobs/${job}/2/audio`,
    `jobs/${job}/2/image`,
    `uploads/${job}/1`,
    "jobs/other/1/audio",
  ]

  const onOldFiles = <E>(run: (store: BlobStore["Service"], directory: string) => Effect.Effect<void, E>) =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const before = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
      for (const key of keys) yield* before.put(key, content, LIMIT)
      yield* nest(directory)
      expect(yield* files(directory)).toEqual(keys.map((key) => `blobs/${key}.blob`).toSorted())
      yield* run(yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory })), directory)
    })

  it.effect("are read and listed beside new ones", () =>
    onOldFiles((store) =>
      Effect.gen(function* () {
        yield* store.put(`jobs/${job}/3/audio`, content, LIMIT)
        yield* store.put("jobs/new/1/audio", content, LIMIT)
        const all = [...keys, `jobs/${job}/3/audio`, "jobs/new/1/audio"]
        for (const key of all) yield* drain(store, key)
        expect(yield* listed(store, "jobs")).toEqual(all.filter((key) => key.startsWith("jobs/")).toSorted())
        expect(yield* listed(store, `jobs/${job}`)).toEqual(all.filter((key) => key.includes(`jobs/${job}`)).toSorted())
        expect(yield* listed(store, `jobs/${job}/2`)).toEqual([`jobs/${job}/2/audio`, `jobs/${job}/2/image`])
      }),
    ),
  )

  it.effect("are removed with new ones, and their directories too", () =>
    onOldFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put(`jobs/${job}/3/audio`, content, LIMIT)
        yield* store.remove(`jobs/${job}/2/image`)
        expect((yield* Effect.flip(store.open(`jobs/${job}/2/image`)))._tag).toBe("BlobNotFound")
        expect(yield* listed(store, `jobs/${job}`)).toHaveLength(3)
        yield* store.remove(`jobs/${job}`)
        expect(yield* listed(store, "jobs")).toEqual(["jobs/other/1/audio"])
        for (const key of ["jobs/other", `uploads/${job}`]) yield* store.remove(key)
        expect(yield* tree(directory)).toEqual([...EMPTY, "blobs/jobs/", "blobs/jobs/shard-7c/"].toSorted())
      }),
    ),
  )

  it.effect("and that were copied back to their old place are served", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/audio", content, LIMIT)
        const path = join(directory, "blobs/jobs/shard-00/a.1.audio.blob")
        const bytes = yield* Effect.promise(() => readFile(path))
        yield* store.remove("jobs/a")
        yield* Effect.promise(async () => {
          await mkdir(join(directory, "blobs/jobs/a/1"), { recursive: true })
          await writeFile(join(directory, "blobs/jobs/a/1/audio.blob"), bytes)
        })
        yield* drain(store, "jobs/a/1/audio")
      }),
    ),
  )
})
