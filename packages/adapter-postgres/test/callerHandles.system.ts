import { expect, it } from "@effect/vitest"
import { drizzle as drizzleOfPg } from "drizzle-orm/node-postgres"
import { drizzle as drizzleOfPostgresJs } from "drizzle-orm/postgres-js"
import { Cause, Effect, Exit, type Scope } from "effect"
import knex, { type Knex } from "knex"
import { Kysely, PostgresDialect, type Transaction } from "kysely"
import { callersPool } from "@kiln/postgres-lab"
import postgres from "postgres"
import { CallerTransactions, type NewJob } from "@kiln/core/ports"
import { callerTransactionsConformance, type CallerPlace, type CallerTransaction, fixtures } from "@kiln/conformance"
import { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma, PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"
import { heldTransaction } from "./support/heldTransaction.ts"
import { warmed } from "./support/warmed.ts"
import { prismaClient, type PrismaTransaction } from "./support/prismaClient.ts"

/** A library connected to a database. */
interface Library {
  readonly begin: () => Promise<CallerTransaction>
  readonly end: () => Promise<unknown>
}

const libraries: Readonly<Record<string, (url: string) => Library>> = {
  "postgres.js": (url) => {
    const sql = postgres(url, { max: 5, onnotice: () => undefined })
    return {
      begin: () => heldTransaction((work) => sql.begin(work), fromPostgresJs),
      end: () => sql.end({ timeout: 5 }),
    }
  },
  "Drizzle on pg": (url) => {
    const pool = callersPool(url)
    const db = drizzleOfPg(pool)
    type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
    return {
      begin: () => heldTransaction<Tx>((work) => db.transaction(work), fromDrizzle),
      end: () => pool.end(),
    }
  },
  "Drizzle on postgres.js": (url) => {
    const sql = postgres(url, { max: 5, onnotice: () => undefined })
    const db = drizzleOfPostgresJs(sql)
    type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
    return {
      begin: () => heldTransaction<Tx>((work) => db.transaction(work), fromDrizzle),
      end: () => sql.end({ timeout: 5 }),
    }
  },
  Knex: (url) => {
    const db = knex({ client: "pg", connection: url, pool: { min: 0, max: 5 } })
    return {
      begin: () => heldTransaction<Knex.Transaction>((work) => db.transaction(work), fromKnex),
      end: () => db.destroy(),
    }
  },
  Kysely: (url) => {
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool: callersPool(url) }) })
    return {
      begin: () => heldTransaction<Transaction<object>>((work) => db.transaction().execute(work), fromKysely),
      end: () => db.destroy(),
    }
  },
  Prisma: (url) => {
    const prisma = prismaClient(url)
    const patient = { maxWait: 30_000, timeout: 30_000 }
    return {
      begin: () => heldTransaction<PrismaTransaction>((work) => prisma.$transaction(work, patient), fromPrisma),
      end: () => prisma.$disconnect(),
    }
  },
}

const connectedTo = (make: (url: string) => Library): Effect.Effect<Library & { url: string }, never, Scope.Scope> =>
  Effect.flatMap(emptyDatabase, (url) =>
    Effect.acquireRelease(
      Effect.sync(() => ({ url, ...make(url) })),
      ({ end }) => Effect.promise(end),
    ),
  )

/** A transaction that does not outlive its test, whatever becomes of that. */
const begunBy = ({ begin }: Library) =>
  Effect.acquireRelease(Effect.promise(begin), ({ rollback }) =>
    Effect.promise(() => rollback().catch(() => undefined)),
  )

const layerOf = (url: string) => PostgresStores.layer({ url, poolSize: 4, noteLanesEveryMs: 0 })

const outcomes = (transaction: unknown, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) =>
    Effect.map(createJobs(transaction, jobs), (created) => created.map(({ _tag }) => _tag)),
  )

const { jobId, newJob } = fixtures

for (const [name, make] of Object.entries(libraries)) {
  callerTransactionsConformance({
    name: `Postgres, by a transaction of ${name},`,
    concurrent: true,
    place: Effect.map(connectedTo(make), ({ begin, url }): CallerPlace => warmed({ layer: layerOf(url), begin })),
  })

  it.live(`${name}: strings arrive as they are`, () =>
    Effect.gen(function* () {
      const library = yield* connectedTo(make)
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
      const library = yield* connectedTo(make)
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
