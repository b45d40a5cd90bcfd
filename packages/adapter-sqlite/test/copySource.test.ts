import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { fixtures } from "@kiln/conformance"
import { type CopyRow, type CopySource, type CopyTable, copyTables, openCopySource } from "../src/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { child } from "./support/childProcess.ts"
import { everyState, storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const holdOpen = new URL("./support/holdOpen.ts", import.meta.url)

const open = (path: string) =>
  Effect.flatMap(openCopySource(path), (source) =>
    source === undefined ? Effect.die(new Error("there is no database")) : Effect.succeed(source),
  )

const rowsOf = (source: CopySource, table: CopyTable) =>
  Effect.gen(function* () {
    const rows: Array<CopyRow> = []
    yield* source.forEachPage(table, (page) => Effect.sync(() => void rows.push(...page)))
    return rows
  })

/** The path of a closed database with a job in every state. */
const closedEveryState = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const path = yield* temporaryFile
  const database = yield* Scope.provide(everyState, scope)
  // Its directory is removed with its scope.
  database.connection.exec(`VACUUM INTO '${path}'`)
  yield* Scope.close(scope, Exit.void)
  return path
})

describe("a copy's source", () => {
  it.live(
    "yields every row of every table except those of workers, rate limits, sums and store time, with flags as booleans",
    () =>
      Effect.gen(function* () {
        const path = yield* closedEveryState
        const raw = new Sqlite(path)
        const tables = raw
          .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
          .all([]) as ReadonlyArray<{ readonly name: string }>
        // Long requests are copied with their jobs.
        const left = new Set([
          "kiln_migrations",
          "kiln_workers",
          "kiln_kept_bytes",
          "kiln_rate_buckets",
          "kiln_reserved",
          "kiln_minutes",
          "kiln_store_time",
          "kiln_job_data",
        ])
        expect(copyTables.map((table) => `kiln_${table}`).sort()).toEqual(
          tables.map(({ name }) => name).filter((name) => !left.has(name)),
        )
        const count = (table: CopyTable) => raw.prepare(`SELECT count(*) AS count FROM kiln_${table}`)
        const counts = copyTables.map((table) => count(table).get([]))
        raw.close()

        const source = yield* open(path)
        for (const [index, table] of copyTables.entries()) {
          const rows = yield* rowsOf(source, table)
          expect({ table, count: rows.length }).toEqual({ table, ...(counts[index] as object) })
          expect(yield* source.count(table)).toBe(rows.length)
        }
        expect((yield* rowsOf(source, "jobs")).map(({ held }) => held)).toContain(true)
        const jobs = yield* rowsOf(source, "jobs")
        expect(jobs.filter(({ request }) => typeof request === "string").map(({ id }) => id)).toEqual(
          jobs.filter(({ retained }) => retained === "kept").map(({ id }) => id),
        )
        const lengths = jobs.map(({ request }) => (typeof request === "string" ? request.length : 0))
        expect(new Set(lengths.map((length) => length > 1_000))).toEqual(new Set([true, false]))
        expect((yield* rowsOf(source, "uploads")).map(({ erased }) => erased)).toContain(true)
        expect(yield* rowsOf(source, "checkpoints")).toEqual([
          { job_id: fixtures.jobId(2), step: "reply", value: '"text"' },
        ])
      }),
  )

  it.live("keeps a lane's kind and version apart, and yields bytes as bytes", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { jobs, secrets } = storesOf(yield* openDatabase({ path }))
          yield* jobs.createJobs([fixtures.newJob(1), fixtures.newJob(2, { kindVersion: 12 })])
          yield* secrets.getOrCreate("signing", Uint8Array.of(0, 255))
        }),
      )
      const source = yield* open(path)
      const lanes = yield* rowsOf(source, "lanes")
      expect(lanes.map(({ kind, kind_version: version }) => [kind, version])).toEqual([
        ["speech_synthesis", 1],
        ["speech_synthesis", 12],
      ])
      const [secret] = yield* rowsOf(source, "secrets")
      expect(secret?.["value"]).toEqual(Uint8Array.of(0, 255))
      expect(secret?.["value"]).not.toBeInstanceOf(Buffer)
    }),
  )

  it.live("yields many rows in pages, each once and in order", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const numbers = [...Array(1_001).keys()].map((n) => n + 1)
      yield* Effect.scoped(
        Effect.flatMap(openDatabase({ path }), (database) =>
          storesOf(database).uploads.createUploads(numbers.map((n) => fixtures.newUpload(n))),
        ),
      )
      const source = yield* open(path)
      const pages: Array<number> = []
      const ids: Array<unknown> = []
      yield* source.forEachPage("uploads", (page) =>
        Effect.sync(() => {
          pages.push(page.length)
          ids.push(...page.map(({ id }) => id))
        }),
      )
      expect(pages).toEqual([500, 500, 1])
      expect(ids).toEqual(numbers.map((n) => fixtures.uploadId(n)))
    }),
  )

  it.live("can be read again after a page whose use failed", () =>
    Effect.gen(function* () {
      const source = yield* open(yield* closedEveryState)
      expect(yield* Effect.flip(source.forEachPage("jobs", () => Effect.fail("no")))).toBe("no")
      expect((yield* rowsOf(source, "jobs")).length).toBe(yield* source.count("jobs"))
    }),
  )

  it.live("is exclusive: rejected if another process has the file open, and closed to others during the copy", () =>
    Effect.gen(function* () {
      const path = yield* closedEveryState
      const other = yield* child(holdOpen, path)
      expect(yield* Effect.promise(other.line)).toBe("open")
      expect((yield* Effect.flip(Effect.scoped(openCopySource(path))))._tag).toBe("CopySourceInUse")
      other.process.kill("SIGKILL")
      yield* Effect.promise(() => other.ended)

      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* open(path)
          const error = yield* Effect.flip(Effect.scoped(openDatabase({ path, retryForMs: 50 })))
          expect(error).toMatchObject({ _tag: "StoreUnavailable", cause: { code: "SQLITE_BUSY" } })
        }),
      )
      yield* Effect.scoped(openDatabase({ path }))
    }),
  )

  it.live("is undefined if there is no file", () =>
    Effect.gen(function* () {
      expect(yield* openCopySource(yield* temporaryFile)).toBe(undefined)
    }),
  )
})
