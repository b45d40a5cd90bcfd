import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, statfsSync, statSync, symlinkSync } from "node:fs"
import { dirname, join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import type { JobStore } from "@kiln/core/ports"
import { makeSqliteJobStore } from "../src/jobs/SqliteJobStore.ts"
import { makeDirectory, openDatabase } from "../src/openDatabase.ts"
import { Reserve } from "../src/disk/Reserve.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const opened = Effect.fnUntraced(function* (allowCopies = false) {
  const place = join(yield* temporaryDirectory, "place")
  const path = join(place, "kiln.db")
  const store = makeSqliteJobStore(yield* openDatabase({ path, allowCopies }))
  yield* store.createJobs([fixtures.newJob(1)])
  return { place, path, store }
})

/** Longer than a writer, and than a reader, relies on the last look. */
const soon = Effect.sleep(10)
const later = Effect.sleep(300)

describe("a database that is taken away while it is open", () => {
  it.live("is neither written nor read nor created again, until it is back", () =>
    Effect.gen(function* () {
      const { path, place, store } = yield* opened()
      renameSync(place, `${place}-away`)
      yield* soon
      const gone = { _tag: "StoreUnavailable", message: expect.stringMatching(/kiln\.db is gone: mount its disk/) }
      expect(yield* Effect.flip(store.createJobs([fixtures.newJob(2)]))).toMatchObject(gone)
      yield* later
      expect(yield* Effect.flip(store.listPurges(1))).toMatchObject(gone)
      // As below a mount.
      mkdirSync(place)
      expect(yield* Effect.flip(store.createJobs([fixtures.newJob(2)]))).toMatchObject(gone)
      expect(existsSync(path)).toBe(false)
      rmSync(place, { recursive: true })
      renameSync(`${place}-away`, place)
      expect(yield* store.createJobs([fixtures.newJob(2)])).toMatchObject([{ _tag: "Created" }])
    }),
  )

  it.live("is not confused with another file in its place, unless copies are allowed", () =>
    Effect.gen(function* () {
      for (const allowCopies of [false, true]) {
        const { path, store } = yield* opened(allowCopies)
        renameSync(path, `${path}-away`)
        copyFileSync(`${path}-away`, path)
        yield* soon
        const created = yield* Effect.result(store.createJobs([fixtures.newJob(2)]))
        expect(created).toMatchObject(
          allowCopies
            ? { _tag: "Success" }
            : { failure: { message: expect.stringMatching(/is not the database that this process opened/) } },
        )
        rmSync(path)
        renameSync(`${path}-away`, path)
        expect((yield* Effect.result(store.createJobs([fixtures.newJob(3)])))._tag).toBe("Success")
      }
    }),
  )
})

describe("the reserve", () => {
  const inPlace = Effect.map(temporaryDirectory, (directory) => join(directory, "kiln.db"))

  it.live("is readable by its owner only, is given up once, and is made again", () =>
    Effect.gen(function* () {
      const reserve = new Reserve(yield* inPlace, 100_000)
      expect([reserve.isThere, reserve.isSpent]).toEqual([false, false])
      expect(reserve.make()).toBe(true)
      expect(statSync(reserve.path)).toMatchObject({ size: 100_000 })
      expect(statSync(reserve.path).mode & 0o777).toBe(0o600)
      expect([reserve.giveUp(), reserve.giveUp(), existsSync(reserve.path)]).toEqual([true, false, false])
      // There is room, so it is made at once.
      expect([reserve.isSpent, reserve.isThere]).toEqual([false, true])
    }),
  )

  it.live("takes a sixteenth of the disk at most, and none is made for 0 bytes", () =>
    Effect.gen(function* () {
      const path = yield* inPlace
      const { blocks, bsize } = statfsSync(dirname(path))
      expect(new Reserve(path, 2 ** 60).bytes).toBe(Math.floor((blocks * bsize) / 16))
      expect(new Reserve(path, 0)).toMatchObject({ isWanted: false, isThere: true, isSpent: false })
    }),
  )

  const text = "x".repeat(50_000)
  // Each begins a command that deletes, or a start.
  const beginnings = {
    writeLineage: (store: JobStore["Service"]) => store.writeLineage(0, JSON.stringify({ text })),
    publishRetention: (store: JobStore["Service"]) =>
      store.publishRetention({
        publisher: text,
        program: "test",
        rules: [{ kind: "report", dataMs: 1_000, jobsMs: 1_000 }],
        ttlMs: 1_000,
        graceMs: 0,
      }),
  }

  it.live.each(["writeLineage", "publishRetention"] as const)(
    "is given up for %s, and made again when the database closes",
    (verb) =>
      Effect.gen(function* () {
        const path = yield* inPlace
        yield* Effect.scoped(
          Effect.gen(function* () {
            const database = yield* openDatabase({ path, reserveBytes: 100_000 })
            const store = makeSqliteJobStore(database)
            database.file.reserve.make()
            const pages = Number(database.connection.pragma("page_count", { simple: true }))
            database.connection.pragma(`max_page_count = ${pages}`)
            // What grows leaves it; what an operator does gives it up.
            yield* Effect.flip(store.createJobs([fixtures.newJob(1, { request: { input: text } })]))
            expect(existsSync(database.file.reserve.path)).toBe(true)
            yield* Effect.flip(beginnings[verb](store))
            expect(existsSync(database.file.reserve.path)).toBe(false)
          }),
        )
        expect(statSync(`${path}-reserve`)).toMatchObject({ size: 100_000 })
      }),
  )
})

describe("a directory", () => {
  it.effect("is missing, and not in the way, where a link leads to a disk that is not mounted", () =>
    Effect.gen(function* () {
      const disk = join(yield* temporaryDirectory, "disk")
      symlinkSync(join(dirname(disk), "mount"), disk)
      for (const path of [disk, join(disk, "kiln/data")]) expect(() => makeDirectory(path)).toThrow("ENOENT")
      mkdirSync(join(dirname(disk), "mount"))
      expect(makeDirectory(join(disk, "kiln/data"))).toBe(join(disk, "kiln"))
    }),
  )
})
