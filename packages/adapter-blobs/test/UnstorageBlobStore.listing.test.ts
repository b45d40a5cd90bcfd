import { UnstorageBlobStore, type UnstorageLike } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { createStorage } from "unstorage"
import fsDriver from "unstorage/drivers/fs"
import { trickyStorage } from "./support/drivers.ts"
import { fakeS3 } from "./support/fakeS3.ts"
import { content, LIMIT } from "./support/onTricky.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const open = (storage: UnstorageLike) => Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage }))
const probes = (keys: Iterable<string>) => [...keys].filter((key) => key.includes("probe-"))

describe("a driver's listing", { timeout: 120_000 }, () => {
  it.live("unstorage's s3 driver is rejected at the first start, on an empty bucket, and leaves nothing behind", () =>
    Effect.gen(function* () {
      const { endpoint, objects } = yield* fakeS3
      const { default: s3Driver } = yield* Effect.promise(() => import("unstorage/drivers/s3"))
      const driver = s3Driver({ accessKeyId: "a", secretAccessKey: "b", endpoint, bucket: "files", region: "local" })
      // Refused by its name; without it, by the probe.
      const named = createStorage({ driver })
      const storage: UnstorageLike = { ...named, getMount: () => ({ driver: {} }) }
      const byName = yield* Effect.flip(open(named))
      expect(byName.message).toContain("unstorage's s3 driver does not list all of its items (it lists at most 1,000)")
      expect(byName.message).toContain("KILN_BLOBS=s3://bucket/prefix")
      expect(objects.size).toBe(0)
      const refusals = Effect.map(Effect.flip(open(storage)), ({ _tag, cause, operation }) => {
        expect({ _tag, operation }).toEqual({ _tag: "BlobUnavailable", operation: "start" })
        return cause instanceof Error ? cause.message : ""
      })
      // Repeatedly, even when the bucket holds more than a page.
      for (const count of [0, 1_100]) {
        for (let n = 0; n < count; n++) objects.set(`jobs/${n}/1/audio`, Buffer.of(1))
        const message = yield* refusals
        expect(message).toContain("does not list all of its items")
        expect(message).toContain("KILN_BLOBS=file:")
        expect(probes(objects.keys())).toEqual([])
      }
    }),
  )

  it.live("drivers that list completely are probed once, and the probe leaves nothing behind", () =>
    Effect.gen(function* () {
      const storage = trickyStorage()
      let writes = 0
      storage.tricks.set = () => {
        writes += 1
        return undefined
      }
      yield* (yield* open(storage)).put("a/b", content, LIMIT)
      expect(writes).toBeGreaterThan(1_000)
      expect(probes(storage.items.keys())).toEqual([])
      writes = 0
      const store = yield* open(storage)
      yield* store.put("a/c", content, LIMIT)
      expect(writes).toBeLessThan(10)
    }),
  )

  it.live("several processes can start on one directory at the same time", () =>
    Effect.gen(function* () {
      const base = yield* temporaryDirectory
      const starts = [1, 2, 3].map(() => open(createStorage({ driver: fsDriver({ base }) })))
      yield* Effect.all(starts, { concurrency: "unbounded" })
      expect(probes(yield* Effect.promise(() => createStorage({ driver: fsDriver({ base }) }).getKeys()))).toEqual([])
    }),
  )
})
