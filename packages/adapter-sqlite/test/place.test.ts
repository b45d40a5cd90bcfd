import { copyFileSync, cpSync, mkdirSync, renameSync } from "node:fs"
import { join } from "node:path"
import SqliteDatabase from "better-sqlite3"
import { StorePlace } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { SqliteStores } from "../src/index.ts"
import { type FileIdentity, isSameFile } from "../src/disk/DatabaseFile.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const placeOf = (path: string, allowCopies = false) =>
  Effect.runPromise(
    Effect.flatMap(StorePlace, ({ read }) => read).pipe(
      Effect.provide(SqliteStores.layer({ path, allowCopies })),
      Effect.scoped,
    ),
  )

const inDirectory = (test: (directory: string) => Promise<void>) => () =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(temporaryDirectory, (path) => Effect.promise(() => test(path)))))

describe("the place of a database file", () => {
  it(
    "is the same after writes, a rename and a move of its directory, and another one for every copy",
    inDirectory(async (directory) => {
      const first = join(directory, "first")
      mkdirSync(first)
      const path = join(first, "kiln.db")
      const before = await placeOf(path)
      if (before === undefined) throw new Error("no place")
      const isStill = async (where: string) => (await placeOf(where))?.isSame(before.document)
      new SqliteDatabase(path).exec("CREATE TABLE other (n); INSERT INTO other VALUES (1); VACUUM").close()
      expect(await isStill(path)).toBe(true)

      const copies = ["copied", "snapshot", "restored"].map((name) => join(directory, `${name}.db`))
      const [copied = "", snapshot = "", restored = ""] = copies
      copyFileSync(path, copied)
      new SqliteDatabase(path).exec(`VACUUM INTO '${snapshot}'`).close()
      cpSync(path, restored, { preserveTimestamps: true })
      for (const copy of copies) expect(await isStill(copy)).toBe(false)

      renameSync(path, join(first, "renamed.db"))
      renameSync(first, join(directory, "second"))
      const moved = join(directory, "second/renamed.db")
      expect(await isStill(moved)).toBe(true)
      expect((await placeOf(moved))?.description).toBe(moved)
      expect(before.description).toBe(path)
    }),
  )

  it(
    "is not told where copies are allowed",
    inDirectory(async (directory) => {
      expect(await placeOf(join(directory, "kiln.db"), true)).toBeUndefined()
    }),
  )

  it(
    "is not the one in a document that cannot be understood",
    inDirectory(async (directory) => {
      const place = await placeOf(join(directory, "kiln.db"))
      for (const document of ["null", "{}", '{"inode":1,"device":"1","born":"1","isUnchanged":false}'])
        expect(place?.isSame(document)).toBe(false)
    }),
  )

  const file: FileIdentity = { inode: "12", born: "1000", isUnchanged: false, device: "2049" }
  const born = (time: string): FileIdentity => ({ ...file, born: time })
  it.each<[string, FileIdentity, FileIdentity, boolean]>([
    ["the file system was mounted under another number", file, { ...file, device: "2050" }, true],
    ["a fresh file system numbers its files alike", file, { ...file, born: "2000" }, false],
    ["the number was reused for a new file", file, { ...file, born: "2000", isUnchanged: true }, false],
    ["another number", file, { ...file, inode: "13" }, false],
    ["no creation time", { ...file, born: "0" }, { ...file, born: "0" }, true],
    [
      "no creation time, and another file system",
      { ...file, born: "0" },
      { ...file, born: "0", device: "2050" },
      false,
    ],
    [
      "a creation time that is always the last change",
      { ...file, isUnchanged: true },
      { ...file, born: "9", isUnchanged: true },
      true,
    ],
    // Some runtimes report whole milliseconds, cut or rounded, and others nanoseconds.
    ["a time in milliseconds", born("1795693135115987654"), born("1795693135115000000"), true],
    ["a time rounded to milliseconds", born("1795693135115987654"), born("1795693135116000000"), true],
    ["a time in microseconds", born("1795693135115987654"), born("1795693135115987000"), true],
    ["a time in milliseconds, and in microseconds", born("1795693135115000000"), born("1795693135115987000"), true],
    ["another millisecond", born("1795693135115987654"), born("1795693135117000000"), false],
    ["another nanosecond", born("1795693135115987654"), born("1795693135115987655"), false],
  ])("%s", (_what, kept, now, expected) => {
    expect(isSameFile(kept, now)).toBe(expected)
    expect(isSameFile(now, kept)).toBe(expected)
  })
})
