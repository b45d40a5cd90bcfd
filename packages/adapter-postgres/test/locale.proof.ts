import { randomBytes } from "node:crypto"
import { expect, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { postgresServer } from "@kiln/postgres-lab"
import { compareWithMemory } from "@kiln/conformance"
import { runSql } from "./support/databases.ts"
import { ownPlace } from "./support/ownPlace.ts"

/** A database that compares texts as German dictionaries do: upper case after lower case, punctuation hardly at all. */
const germanDatabase: Effect.Effect<string, never, Scope.Scope> = Effect.gen(function* () {
  const server = yield* Effect.promise(() => postgresServer())
  const name = `kiln_test_${randomBytes(8).toString("hex")}`
  yield* Effect.acquireRelease(
    runSql(
      server,
      `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'de-u-ka-shifted'`,
    ),
    () => runSql(server, `DROP DATABASE ${name} WITH (FORCE)`),
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
})

it.live("a database with another locale sorts differently", () =>
  Effect.gen(function* () {
    const sorted =
      "SELECT string_agg(word, ' ' ORDER BY word) AS words FROM (VALUES ('Z'), ('a'), ('b_1'), ('b-0')) AS v(word)"
    expect(yield* runSql(yield* germanDatabase, sorted)).toEqual([{ words: "a b-0 b_1 Z" }])
  }),
)

compareWithMemory({
  name: "Postgres, in a database of another language,",
  place: Effect.flatMap(germanDatabase, (url) => ownPlace({ url })),
  capabilities: { durable: true, multiProcess: true },
  runs: 5,
})
