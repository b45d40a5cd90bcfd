import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { openCopyTarget, postgresMigrations } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const migrated = Effect.gen(function* () {
  const url = yield* emptyDatabase
  yield* postgresMigrations.apply({ url })
  return url
})

const project = { seq: 41, id: "prj_1", name: "one", created_at: 5 }
const fairness = { id: 1, virtual_time: 9 }

describe("openCopyTarget", () => {
  it.live("commits what was written, and sequences continue after the highest number", () =>
    Effect.gen(function* () {
      const url = yield* migrated
      yield* Effect.scoped(
        Effect.gen(function* () {
          const target = yield* openCopyTarget({ url })
          yield* target.write("projects", [project])
          yield* target.write("fairness", [fairness])
          yield* target.write("secrets", [{ name: "s", value: Uint8Array.of(0, 255, 92) }])
          yield* target.write("uploads", [])
          yield* target.commit([
            { table: "projects", count: 1 },
            { table: "fairness", count: 1 },
          ])
        }),
      )
      expect(
        yield* runSql(url, "INSERT INTO kiln.projects (id, name, created_at) VALUES ('p', 'n', 1) RETURNING seq"),
      ).toEqual([{ seq: "42" }])
      expect(yield* runSql(url, "SELECT virtual_time FROM kiln.fairness")).toEqual([{ virtual_time: "9" }])
      expect(yield* runSql(url, "SELECT encode(value, 'hex') AS value FROM kiln.secrets")).toEqual([
        { value: "00ff5c" },
      ])
      const disabled = "SELECT tgname FROM pg_trigger WHERE tgenabled = 'D'"
      expect(yield* runSql(url, disabled)).toEqual([])
    }),
  )

  it.live("keeps nothing if counts differ, a column is unknown, or it is not committed", () =>
    Effect.gen(function* () {
      const url = yield* migrated
      const copy = (rows: ReadonlyArray<Record<string, string | number>>, count?: number) =>
        Effect.scoped(
          Effect.gen(function* () {
            const target = yield* openCopyTarget({ url })
            yield* target.write("projects", rows)
            if (count !== undefined) yield* target.commit([{ table: "projects", count }])
          }),
        )
      expect(yield* Effect.flip(copy([project], 2))).toMatchObject({
        _tag: "CopyCountsDiffer",
        table: "projects",
        sent: 2,
        arrived: 1,
      })
      expect(yield* Effect.flip(copy([{ ...project, extra: 1 }], 1))).toMatchObject({
        _tag: "StoreUnavailable",
        cause: { code: "42703" },
      })
      yield* copy([project])
      expect(yield* runSql(url, "SELECT * FROM kiln.projects")).toEqual([])
      expect(yield* runSql(url, "SELECT virtual_time FROM kiln.fairness")).toEqual([{ virtual_time: "0" }])
      expect(yield* runSql(url, "SELECT tgname FROM pg_trigger WHERE tgenabled = 'D'")).toEqual([])
      yield* copy([project], 1)
      expect(yield* Effect.flip(copy([project], 1))).toMatchObject({ _tag: "CopyTargetNotEmpty", tables: ["projects"] })
    }),
  )

  it.live("refuses a schema with a row in any table", () =>
    Effect.gen(function* () {
      const url = yield* migrated
      yield* runSql(url, "INSERT INTO kiln.workers VALUES ('w', '[]', 1, '[]')")
      expect(yield* Effect.flip(Effect.scoped(openCopyTarget({ url })))).toMatchObject({ tables: ["workers"] })
    }),
  )

  it.live("blocks writers until it ends", () =>
    Effect.gen(function* () {
      const url = yield* migrated
      const insert = "SET lock_timeout = 100; INSERT INTO kiln.projects (id, name, created_at) VALUES ('p', 'n', 1)"
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* openCopyTarget({ url })
          const refused = yield* Effect.exit(runSql(url, insert))
          expect(String(refused)).toContain("lock timeout")
        }),
      )
      yield* runSql(url, insert)
    }),
  )
})
