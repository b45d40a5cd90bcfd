import { expect, it } from "vitest"
import { applied, sqlMutantsOf } from "../scripts/mutation/sqlMutants.ts"

const changed = (sql: string): ReadonlyArray<string> => sqlMutantsOf(sql).map((mutant) => applied(sql, mutant))

it.each([
  ["a condition", "select 1 from a where x <= 1", ["where true", "where x < 1"]],
  [
    "conditions",
    "delete from a where x = 1 and not y",
    [
      "where true and not y",
      "where x <> 1 and not y",
      "where x = 1 or not y",
      "where x = 1 and  y",
      "where x = 1 and true",
    ],
  ],
  [
    "alternatives",
    "delete from a where (x or y)",
    ["where true", "where (false or y)", "where (x and y)", "where (x or false)"],
  ],
  [
    "assignments, which are no comparisons",
    "update a set x = y + 1, z = 0",
    ["set  z = 0", "set x = y + 0, z = 0", "set x = y + 1"],
  ],
  [
    "order and limit",
    "select 1 from a order by x, y desc limit 2",
    ["by x desc, y desc limit 2", "by x, y asc limit 2", "by x, y desc limit 2 + 1"],
  ],
  ["the first of several values", "select coalesce(x, 0) from a", ["select (x) from a"]],
  ["a subquery", "delete from a where not exists (select from b)", ["where  exists (select from b)", "where true"]],
  [
    "a branch",
    "BEGIN IF x THEN y := 1; END IF; END",
    [
      "BEGIN IF true THEN y := 1; END IF; END",
      "BEGIN IF false THEN y := 1; END IF; END",
      "BEGIN IF x THEN NULL; END IF; END",
    ],
  ],
  ["no lock", "BEGIN ignored := pg_advisory_xact_lock(claim); END", []],
  ["no text and no comment", "select 'a and b' -- or c", []],
])("changes %s", (_, sql, ends) => {
  const all = changed(sql)
  expect(all).toHaveLength(ends.length)
  all.forEach((text, index) => expect(text.endsWith(ends[index] ?? ""), `${text} ends with ${ends[index]}`).toBe(true))
})
