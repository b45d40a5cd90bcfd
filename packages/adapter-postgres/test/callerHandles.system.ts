import { expect, it } from "@effect/vitest"
import { drizzle as drizzleOfPg } from "drizzle-orm/node-postgres"
import { Cause, Effect, Exit } from "effect"
import knex from "knex"
import { Kysely, PostgresDialect } from "kysely"
import { callersPool } from "@kiln/postgres-lab"
import postgres from "postgres"
import { CallerTransactions, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma } from "../src/index.ts"
import {
  connectedTo,
  layerOf,
  libraries,
  libraryConformance,
  type Library,
  type LibraryName,
} from "./support/callerLibraries.ts"
import { runSql } from "./support/databases.ts"
import { prismaClient } from "./support/prismaClient.ts"

/** A transaction that does not outlive its test, whatever becomes of that. */
const begunBy = ({ begin }: Library) =>
  Effect.acquireRelease(Effect.promise(begin), ({ rollback }) =>
    Effect.promise(() => rollback().catch(() => undefined)),
  )

const outcomes = (transaction: unknown, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) =>
    Effect.map(createJobs(transaction, jobs), (created) => created.map(({ _tag }) => _tag)),
  )

const { jobId, newJob } = fixtures

/** One for each driver. The others, which wrap the same drivers, run the suite in `callerHandles.proof.ts`. */
for (const name of ["postgres.js", "Kysely", "Prisma"] as const) libraryConformance(name)

for (const name of Object.keys(libraries) as ReadonlyArray<LibraryName>) {
  it.live(`${name}: strings arrive as they are`, () =>
    Effect.gen(function* () {
      const library = yield* connectedTo(name)
      const { url } = library
      yield* Effect.gen(function* () {
        const metadata = { odd: `"quoted" \\ ? ?? $1 :name {} 'it''s' – 日本` }
        const { commit, transaction } = yield* begunBy(library)
        const jobs = [newJob(1, { metadata, queueCap: 3 }), newJob(2, { metadata: {} })]
        expect(yield* outcomes(transaction, ...jobs)).toEqual(["Created", "Created"])
        yield* Effect.promise(commit)
        expect(yield* runSql(url, `SELECT kept::json AS kept FROM "kiln".jobs ORDER BY id`)).toEqual([
          { kept: metadata },
          { kept: {} },
        ])
      }).pipe(Effect.provide(layerOf(url)))
    }),
  )

  it.live(`${name}: an error of the server is recognized inside the library's own`, () =>
    Effect.gen(function* () {
      const library = yield* connectedTo(name)
      const { url } = library
      yield* Effect.gen(function* () {
        const first = yield* begunBy(library)
        yield* outcomes(first.transaction, newJob(1))
        yield* Effect.promise(first.commit)
        const second = yield* begunBy(library)
        // The second has the id of a job that is there under another key.
        const exit = yield* Effect.exit(outcomes(second.transaction, newJob(2), newJob(3, { id: jobId(1) })))
        expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
        expect(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined).toMatchObject({ code: "23505" })
        yield* Effect.promise(second.rollback)
        expect(yield* runSql(url, `SELECT id FROM "kiln".jobs`)).toEqual([{ id: jobId(1) }])
      }).pipe(Effect.provide(layerOf(url)))
    }),
  )
}

it("a handle that is not a transaction is refused, with the function that gives one", async () => {
  const url = "postgres://127.0.0.1:1/app"
  const sql = postgres(url)
  const pool = callersPool(url)
  const prisma = prismaClient(url)
  const given = (value: unknown): never => value as never
  expect(() => fromPostgresJs(sql)).toThrow("sql.begin")
  expect(() => fromDrizzle(given(drizzleOfPg(pool)))).toThrow("db.transaction")
  expect(() => fromKnex(knex({ client: "pg", connection: url }))).toThrow("knex.transaction")
  expect(() => fromKysely(given(new Kysely({ dialect: new PostgresDialect({ pool }) })))).toThrow("db.transaction()")
  expect(() => fromPrisma(prisma)).toThrow("prisma.$transaction")
  for (const from of [fromPostgresJs, fromDrizzle, fromKnex, fromKysely, fromPrisma]) {
    expect(() => from(given(undefined))).toThrow(TypeError)
    expect(() => from(given({}))).toThrow(TypeError)
  }
  await Promise.all([sql.end(), pool.end(), prisma.$disconnect()])
})
