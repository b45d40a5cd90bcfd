import { drizzle as drizzleOfPg } from "drizzle-orm/node-postgres"
import { drizzle as drizzleOfPostgresJs } from "drizzle-orm/postgres-js"
import { Effect, type Scope } from "effect"
import knex, { type Knex } from "knex"
import { Kysely, PostgresDialect, type Transaction } from "kysely"
import postgres from "postgres"
import { callerTransactionsConformance, type CallerPlace, type CallerTransaction } from "@kiln/conformance"
import { callersPool } from "@kiln/postgres-lab"
import { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma, PostgresStores } from "../../src/index.ts"
import { emptyDatabase } from "./databases.ts"
import { heldTransaction } from "./heldTransaction.ts"
import { prismaClient, type PrismaTransaction } from "./prismaClient.ts"
import { warmed } from "./warmed.ts"

/** A library connected to a database. */
export interface Library {
  readonly begin: () => Promise<CallerTransaction>
  readonly end: () => Promise<unknown>
}

/** Each wraps a driver in its own way. */
export const libraries = {
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
} satisfies Readonly<Record<string, (url: string) => Library>>

export type LibraryName = keyof typeof libraries

export const connectedTo = (name: LibraryName): Effect.Effect<Library & { url: string }, never, Scope.Scope> =>
  Effect.flatMap(emptyDatabase, (url) =>
    Effect.acquireRelease(
      Effect.sync(() => ({ url, ...libraries[name](url) })),
      ({ end }) => Effect.promise(end),
    ),
  )

export const layerOf = (url: string) => PostgresStores.layer({ url, poolSize: 4, noteLanesEveryMs: 0 })

/** Runs the suite of callers' transactions with those of a library. */
export const libraryConformance = (name: LibraryName): void =>
  callerTransactionsConformance({
    name: `Postgres, by a transaction of ${name},`,
    concurrent: true,
    place: Effect.map(connectedTo(name), ({ begin, url }): CallerPlace => warmed({ layer: layerOf(url), begin })),
  })
