import { Effect } from "effect"
import pg from "pg"
import { expect, it } from "vitest"
import { batchStatement, compiled, flag, integer, nullable, query, text, valuesOf } from "../src/Statement.ts"
import { emptyDatabase } from "./support/databases.ts"

const echo = batchStatement({ text: nullable(text()), number: nullable(integer()), flag: nullable(flag()) }, (item) =>
  query.selectFrom(item).select(["item.text", "item.number", "item.flag"]).orderBy("item.ord"),
)

const texts = [
  "",
  " ",
  "NULL",
  "null",
  "a,b",
  "{}",
  "{a}",
  '"',
  "\\",
  '\\"',
  'a"b\\c',
  "\\N",
  "line\nbreak\ttab\r",
  "'",
  "$1",
  "$&",
  "é",
  "日本",
  "😀",
  '{"input":"say \\"hi\\" \\\\ \\u0001"}',
]

it("the items of a batch arrive as they are, whatever their texts contain", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const items = [
      ...texts.map((word, n) => ({ text: word, number: n - 3, flag: n % 2 === 0 })),
      { text: null, number: null, flag: null },
      { text: "last", number: Number.MAX_SAFE_INTEGER, flag: true },
    ]
    yield* Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const { rows } = await client.query(compiled(echo).sql, valuesOf(compiled(echo), {}, items))
      await client.end()
      expect(rows.map((row) => ({ ...row, number: row.number === null ? null : Number(row.number) }))).toEqual(items)
      expect(valuesOf(compiled(echo), {}, [])).toEqual(["{}", "{}", "{}"])
    })
  }).pipe(Effect.scoped, Effect.runPromise))
