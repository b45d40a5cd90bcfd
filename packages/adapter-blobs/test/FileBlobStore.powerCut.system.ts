import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type * as Promises from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { afterEach, describe, expect, vi } from "vitest"
import { it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { encodeFooter } from "../src/file/BlobDirectory.ts"
import { DirectorySyncs, SharedRuns } from "../src/file/system.ts"
import type { RecordedDisk } from "./support/recordedDisk.ts"

const disk = vi.hoisted(() => ({ current: undefined as RecordedDisk | undefined }))
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof Promises>()
  const { RecordedDisk: Recorded } = await import("./support/recordedDisk.ts")
  disk.current = new Recorded()
  return disk.current.wrap(real)
})

const footerBytes = 64
const contentOf = (key: string) => new Uint8Array(100 + key.length * 997).fill(key.length)
const put = (store: BlobStore["Service"], key: string) =>
  store.put(key, Stream.succeed(contentOf(key)), { maxBytes: 1e6 })

/** Numbers from 0 to 1 that are the same in each run. */
const randomFrom = (seed: number) => {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Of three seconds, so that puts share shards; and short ones, as the store uses for itself. */
const keyOf = (n: number): string =>
  n % 10 === 9
    ? `installation/${n}`
    : `jobs/01k4xq${"7a7b7c".slice((n % 3) * 2, (n % 3) * 2 + 2)}z${n}/1/${"audio".slice(0, 1 + (n % 5))}`

interface Cuts {
  readonly puts: number
  readonly moments: number
  readonly rebuilt: number
  readonly missing: ReadonlyArray<string>
}

/**
 * Puts from two stores on one directory, 16 at once, and removes some again. A record names each blob as soon as its put returns. At every
 * moment, what a power failure leaves must have all that is named; at some, the disk is rebuilt with changes kept and lost at random,
 * and read by a store that starts there.
 */
const cutPower = (seed: number, rebuilds: number) =>
  Effect.gen(function* () {
    const recorded = disk.current
    if (recorded === undefined) throw new Error("the file system is not recorded")
    const scratch = mkdtempSync(join(tmpdir(), "kiln-power-"))
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(scratch, { recursive: true })))
    recorded.top = scratch
    const random = randomFrom(seed)
    const directory = join(scratch, "store")
    const layer = FileBlobStore.layer({ directory })
    const named = new Set<string>()
    const missing = new Set<string>()
    const cuts: Array<{ readonly files: ReadonlyMap<string, number>; readonly named: ReadonlyArray<string> }> = []
    let moments = 0
    recorded.onEvent = () => {
      moments++
      for (const key of named) {
        const file = recorded.durableFile(FileBlobStore.pathsOf(directory, key)[0])
        if (file?.bytes !== contentOf(key).length + footerBytes) missing.add(key)
      }
      if (random() < 0.2) cuts.push({ files: recorded.cut(() => random() < 0.5), named: [...named] })
    }
    const stores = [yield* Effect.provide(BlobStore, layer), yield* Effect.provide(BlobStore, layer)]
    const keys = Array.from({ length: 120 }, (_, n) => keyOf(n))
    const removed = new Set(keys.filter((key, n) => n % 7 === 3 && key.startsWith("jobs/")))
    yield* Effect.forEach(
      keys,
      (key, n) =>
        Effect.gen(function* () {
          const [store, other] = n % 2 === 0 ? stores : [...stores].reverse()
          if (store === undefined || other === undefined) return
          yield* put(store, key)
          named.add(key)
          if (!removed.has(key)) return
          // A record goes before its blob.
          named.delete(key)
          yield* other.remove(key.split("/").slice(0, 2).join("/"))
          if (recorded.durableFile(FileBlobStore.pathsOf(directory, key)[0]) !== undefined)
            missing.add(`${key} came back`)
        }),
      { concurrency: 16, discard: true },
    )
    recorded.onEvent = () => undefined
    recorded.top = "/nowhere"
    const chosen = cuts.filter((_, n) => n % Math.ceil(cuts.length / Math.max(rebuilds, 1)) === 0).slice(0, rebuilds)
    for (const [n, cut] of chosen.entries()) yield* expectServed(join(scratch, `cut${n}`), scratch, cut)
    return { puts: keys.length, moments, rebuilt: chosen.length, missing: [...missing] } satisfies Cuts
  }).pipe(Effect.scoped)

/** Rebuilds a disk and starts a store on it: every key that is named, and every key that is listed, is read whole. */
const expectServed = Effect.fnUntraced(function* (
  at: string,
  from: string,
  cut: { readonly files: ReadonlyMap<string, number>; readonly named: ReadonlyArray<string> },
) {
  for (const [path, bytes] of cut.files) {
    const to = join(at, path.slice(from.length))
    mkdirSync(dirname(to), { recursive: true })
    // The real file may be gone meanwhile; what it held follows from its name. Bytes that are not durable are zeros.
    writeFileSync(to, rebuild(path, bytes))
  }
  const store = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory: join(at, "store") }))
  const listed = [
    ...(yield* Stream.runCollect(store.list("jobs"))),
    ...(yield* Stream.runCollect(store.list("installation"))),
  ]
  expect(listed).toEqual(expect.arrayContaining([...cut.named]))
  for (const key of listed) {
    const chunks = yield* Stream.runCollect((yield* store.open(key)).content)
    expect(Buffer.concat([...chunks]).equals(contentOf(key)), key).toBe(true)
  }
})

/** Returns the first bytes of the file of a blob, under its temporary name or its own. */
const rebuild = (path: string, bytes: number): Uint8Array => {
  const key = path
    .replace(/\.[0-9a-f-]{36}\.part$/, "")
    .replace(/\.blob$/, "")
    .replace(/^.*\/store\/(tmp|blobs)\//, "")
    .replace(/\/shard-..\//, "/")
    .replaceAll(".", "/")
  const content = contentOf(key)
  const sha256 = createHash("sha256").update(content).digest("hex")
  return Buffer.concat([content, encodeFooter({ bytes: content.length, sha256 })]).subarray(0, bytes)
}

describe("a power failure at any moment of shared syncs", () => {
  afterEach(() => vi.restoreAllMocks())

  it.live("leaves every blob that a record names, and none that is damaged", () =>
    Effect.map(cutPower(1, 60), (cuts) => {
      expect(cuts).toMatchObject({ puts: 120, missing: [] })
      expect(cuts.moments).toBeGreaterThan(500)
      expect(cuts.rebuilt).toBeGreaterThanOrEqual(30)
    }),
  )

  it.live("is not survived by puts that join a sync in progress", () => {
    const of = Reflect.get(SharedRuns.prototype, "of") as (path: string) => Promise<unknown>
    const running = new Map<unknown, Map<string, Promise<unknown>>>()
    vi.spyOn(SharedRuns.prototype, "of").mockImplementation(function (this: SharedRuns<unknown>, path) {
      const paths = running.get(this) ?? new Map<string, Promise<unknown>>()
      running.set(this, paths)
      const joined = paths.get(path)
      if (joined !== undefined) return joined
      const run = of.call(this, path).finally(() => paths.delete(path))
      paths.set(path, run)
      return run
    })
    return Effect.map(cutPower(1, 0), ({ missing }) => expect(missing).not.toEqual([]))
  })

  it.live("is not survived if a new shard is not synced above", () => {
    vi.spyOn(DirectorySyncs.prototype, "syncWithPath").mockImplementation(function (this: DirectorySyncs, path) {
      return this.sync(path)
    })
    return Effect.map(cutPower(1, 0), ({ missing }) => expect(missing).not.toEqual([]))
  })
})
