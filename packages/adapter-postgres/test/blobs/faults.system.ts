import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { join } from "node:path"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it, vi } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { type TcpProxy, tcpProxy } from "@kiln/postgres-lab"
import { runSql } from "../support/databases.ts"
import { temporaryDatabase } from "../support/places.ts"
import { openPlanner } from "../support/plans.ts"
import { blobsIn } from "./support.ts"

vi.setConfig({ testTimeout: 60_000 })

const KIB = 1024
const LIMIT = { maxBytes: 64 * KIB * KIB }
const bytesOf = (length: number): Buffer => Buffer.alloc(length, Buffer.from("0123456789abcdefghijklmnopqrstuvw"))
const piecesOf = (bytes: Buffer) =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / 100_000) }, (_, n) => bytes.subarray(n * 100_000, (n + 1) * 100_000)),
  )
const key = "jobs/a/1/audio"

interface Place {
  readonly store: BlobStore["Service"]
  readonly sql: (text: string) => Effect.Effect<ReadonlyArray<unknown>>
  readonly url: string
}

const test = (title: string, run: (place: Place) => Effect.Effect<void, unknown>) =>
  it.live(title, () =>
    Effect.gen(function* () {
      const url = yield* temporaryDatabase()
      const body = Effect.flatMap(BlobStore, (store) => run({ store, url, sql: (text) => runSql(url, text) }))
      yield* Effect.provide(body, blobsIn({ url }))
    }),
  )

const readAll = (store: BlobStore["Service"]) =>
  Effect.flatMap(store.open(key), ({ content }) =>
    Effect.map(Stream.runCollect(content), (pieces) => Buffer.concat([...pieces])),
  )
const counts = `SELECT (SELECT count(*)::int FROM kiln.blobs) AS blobs, (SELECT count(*)::int FROM kiln.blob_chunks) AS chunks`
const nothing = [{ blobs: 0, chunks: 0 }]

describe("damage is reported, and other blobs stay readable", () => {
  const damages: Readonly<Record<string, string>> = {
    "a changed byte": "UPDATE kiln.blob_chunks SET content = set_byte(content, 7, 0) WHERE position = 262144",
    "a missing chunk in the middle": "DELETE FROM kiln.blob_chunks WHERE position = 262144",
    "a missing last chunk": "DELETE FROM kiln.blob_chunks WHERE position = 524288",
    "a chunk cut short":
      "UPDATE kiln.blob_chunks SET content = substring(content FROM 1 FOR 1000) WHERE position = 524288",
    "a chunk that is too long": "UPDATE kiln.blob_chunks SET content = content || '\\x00' WHERE position = 524288",
  }
  for (const [damage, statement] of Object.entries(damages))
    test(damage, ({ sql, store }) =>
      Effect.gen(function* () {
        yield* store.put("jobs/b/1/audio", Stream.make(bytesOf(1_000)), LIMIT)
        yield* store.put(key, piecesOf(bytesOf(600_000)), LIMIT)
        expect((yield* readAll(store)).length).toBe(600_000)
        yield* sql(statement)
        const { content } = yield* store.open(key)
        let read = 0
        const counted = Stream.runForEach(content, ({ length }) => Effect.sync(() => (read += length)))
        expect((yield* Effect.flip(counted))._tag).toBe("BlobCorrupt")
        // A reader that counts bytes must not take it for complete.
        expect(read).toBeLessThan(600_000)
        const intact = yield* store.open("jobs/b/1/audio")
        expect(Buffer.concat([...(yield* Stream.runCollect(intact.content))])).toEqual(bytesOf(1_000))
      }),
    )

  for (const bytes of [1_000, 600_000])
    test(`a put that is repeated repairs a damaged blob of ${bytes} bytes`, ({ sql, store }) =>
      Effect.gen(function* () {
        yield* store.put(key, piecesOf(bytesOf(bytes)), LIMIT)
        yield* sql("UPDATE kiln.blob_chunks SET content = set_byte(content, 7, 0) WHERE position = 0")
        expect((yield* Effect.flip(readAll(store)))._tag).toBe("BlobCorrupt")
        yield* store.put(key, piecesOf(bytesOf(bytes)), LIMIT)
        expect(Buffer.compare(yield* readAll(store), bytesOf(bytes))).toBe(0)
        expect(yield* sql(counts)).toEqual([{ blobs: 1, chunks: Math.ceil(bytes / 262_144) }])
      }))

  test("a stored blob can neither be renamed nor get other bytes", ({ sql, store }) =>
    Effect.gen(function* () {
      yield* store.put(key, Stream.make(bytesOf(10)), LIMIT)
      const refused = yield* Effect.exit(sql("UPDATE kiln.blobs SET key = 'jobs/b'"))
      expect(String(refused)).toContain("a stored blob never changes")
    }))
})

describe("removal", () => {
  test("while a blob is read: the reader learns that it is gone", ({ sql, store }) =>
    Effect.gen(function* () {
      yield* store.put(key, piecesOf(bytesOf(600_000)), LIMIT)
      const { content } = yield* store.open(key)
      const removed = Stream.tap(content, () => store.remove("jobs/a"))
      expect(yield* Effect.flip(Stream.runDrain(removed))).toMatchObject({
        _tag: "BlobUnavailable",
        message: expect.stringContaining("the blob was removed while it was read"),
      })
      expect(yield* sql(counts)).toEqual(nothing)
    }))

  test("of an unfinished blob by a sweep: its put fails, and nothing is left", ({ sql, store }) =>
    Effect.gen(function* () {
      const content = Stream.concat(
        piecesOf(bytesOf(600_000)),
        Stream.fromEffect(Effect.as(sql("DELETE FROM kiln.blobs"), bytesOf(300_000))),
      )
      expect(yield* Effect.flip(store.put(key, content, LIMIT))).toMatchObject({
        _tag: "BlobUnavailable",
        message: expect.stringContaining("removed while it was being written"),
      })
      expect(yield* sql(counts)).toEqual(nothing)
    }))

  test("2,500 blobs are listed and removed, from indexes only", ({ sql, store, url }) =>
    Effect.gen(function* () {
      const keys = Array.from({ length: 2_500 }, (_, n) => `jobs/j${n}/1/audio`)
      yield* Effect.forEach(keys, (one) => store.put(one, Stream.make(bytesOf(100)), LIMIT), { concurrency: 3 })
      yield* store.put("jobsx/j1", Stream.make(bytesOf(100)), LIMIT)
      expect([...(yield* Stream.runCollect(store.list("jobs")))].toSorted()).toEqual(keys.toSorted())
      yield* sql("ANALYZE kiln.blobs; ANALYZE kiln.blob_chunks")
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { scansOf } = yield* openPlanner(url)
          const statements = [
            {
              text: `SELECT key FROM kiln.blobs WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3`,
              values: ["jobs/j1", "jobs/j2", 10],
            },
            {
              text: `SELECT content FROM kiln.blob_chunks WHERE blob_id = $1 AND position <= $2 ORDER BY position DESC LIMIT 1`,
              values: [1, 0],
            },
            { text: `DELETE FROM kiln.blob_chunks WHERE blob_id = $1`, values: [1] },
          ]
          for (const statement of statements)
            for (const scan of yield* Effect.promise(() => scansOf(statement)))
              expect(scan.condition, JSON.stringify(scan)).toBeDefined()
        }),
      )
      yield* store.remove("jobs")
      expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([])
      expect(yield* sql(counts)).toEqual([{ blobs: 1, chunks: 1 }])
    }))
})

const throughProxy = (
  title: string,
  run: (place: Place & { readonly proxy: TcpProxy }) => Effect.Effect<void, unknown>,
) =>
  it.live(title, () =>
    Effect.gen(function* () {
      const url = yield* temporaryDatabase()
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => tcpProxy(url)),
        (open) => Effect.promise(() => open.close()),
      )
      const body = Effect.flatMap(BlobStore, (store) => run({ store, url, proxy, sql: (text) => runSql(url, text) }))
      const options = { url: proxy.url, connectTimeoutMs: 500, statementTimeoutMs: 1_000 }
      yield* Effect.provide(body, blobsIn(options))
    }),
  )

describe("a connection that breaks", () => {
  // The first statement of each kind; a blob of 600,000 bytes is three chunks.
  const statements: Readonly<Record<string, RegExp>> = {
    begin: /insert into .*"blobs" \("begun_at"\)/,
    "write a chunk": /insert into .*"blob_chunks"/,
    "name the blob": /update .*"blobs"/,
    commit: /^commit$/i,
  }
  for (const [step, statement] of Object.entries(statements))
    for (const fault of ["cutBefore", "dropAnswer"] as const)
      throughProxy(
        `once, ${fault === "cutBefore" ? "before" : "after"} the statement to ${step}: the blob is stored once`,
        (place) =>
          Effect.gen(function* () {
            const { proxy, sql, store } = place
            const bytes = bytesOf(600_000)
            const broken = proxy[fault](statement)
            const info = yield* store.put(key, piecesOf(bytes), LIMIT)
            yield* Effect.promise(() => broken)
            expect(info).toEqual({ bytes: 600_000, sha256: createHash("sha256").update(bytes).digest("hex") })
            expect(Buffer.compare(yield* readAll(store), bytes)).toBe(0)
            expect(yield* sql(`SELECT count(*)::int AS stored FROM kiln.blobs WHERE key IS NOT NULL`)).toEqual([
              { stored: 1 },
            ])
          }),
      )

  for (const fault of ["cutBefore", "dropAnswer"] as const)
    throughProxy(`once at a blob of one statement, ${fault}: it is stored once`, ({ proxy, sql, store }) =>
      Effect.gen(function* () {
        const broken = proxy[fault](/with "stored"/)
        yield* store.put(key, Stream.make(bytesOf(1_000)), LIMIT)
        yield* Effect.promise(() => broken)
        expect((yield* readAll(store)).length).toBe(1_000)
        expect(yield* sql(counts)).toEqual([{ blobs: 1, chunks: 1 }])
      }),
    )

  throughProxy("for good: a put fails in bounded time, and nothing of it is ever readable", ({ proxy, store }) =>
    Effect.gen(function* () {
      const content = Stream.tap(piecesOf(bytesOf(600_000)), () => Effect.sync(proxy.blackHole))
      const startedAt = performance.now()
      expect((yield* Effect.flip(store.put(key, content, LIMIT)))._tag).toBe("BlobUnavailable")
      expect(performance.now() - startedAt).toBeLessThan(20_000)
      expect((yield* Effect.flip(store.open(key)))._tag).toBe("BlobUnavailable")
      proxy.cutAll()
      yield* Effect.promise(proxy.pass)
      expect((yield* Effect.flip(store.open(key)))._tag).toBe("BlobNotFound")
      yield* store.put(key, piecesOf(bytesOf(600_000)), LIMIT)
      expect((yield* readAll(store)).length).toBe(600_000)
    }),
  )
})

test("a process killed while it writes leaves nothing readable, and a sweep after a day removes its chunks", (place) =>
  Effect.gen(function* () {
    const { sql, store, url } = place
    const program = join(import.meta.dirname, "putForever.ts")
    const child = spawn(process.execPath, ["--conditions=@kiln/source", program, url, key], { stdio: "inherit" })
    const chunks = Effect.map(sql("SELECT count(*)::int AS n FROM kiln.blob_chunks"), ([row]) => Number(Object(row).n))
    yield* Effect.repeat(Effect.delay(chunks, 20), { until: (n) => n > 2 })
    const exited = once(child, "exit")
    child.kill("SIGKILL")
    yield* Effect.promise(() => exited)
    expect((yield* Effect.flip(store.open(key)))._tag).toBe("BlobNotFound")
    expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([])
    // A put of a living process is younger than a day, so the listing has left it alone.
    expect(yield* chunks).toBeGreaterThan(2)
    yield* sql("UPDATE kiln.blobs SET begun_at = begun_at - 86400001")
    expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([])
    expect(yield* sql(counts)).toEqual(nothing)
  }))

test("a slow upload holds no connection: many of them leave room for others", ({ store }) =>
  Effect.gen(function* () {
    const slow = Stream.concat(piecesOf(bytesOf(600_000)), Stream.fromEffect(Effect.never))
    const uploads = yield* Effect.forEach(Array.from({ length: 20 }).keys(), (n) =>
      Effect.forkChild(store.put(`jobs/slow/${n}`, slow, LIMIT)),
    )
    // The store has two connections for them.
    yield* store.put(key, piecesOf(bytesOf(600_000)), LIMIT)
    expect((yield* readAll(store)).length).toBe(600_000)
    yield* Fiber.interruptAll(uploads)
    expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([key])
  }))
