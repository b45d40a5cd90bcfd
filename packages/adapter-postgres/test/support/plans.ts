import { Effect, type Scope } from "effect"
import pg from "pg"
import { vi } from "@effect/vitest"
import { callEveryVerb } from "@kiln/conformance"
import { clientConfig } from "../../src/connection/pool.ts"
import { connectionOptions } from "../../src/connection/options.ts"
import { arrayText } from "../../src/Statement.ts"
import { PostgresStores } from "../../src/index.ts"
import { connected } from "./databases.ts"

/** A node of a plan, as `EXPLAIN (ANALYZE, FORMAT JSON)` writes it. */
interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Index Cond"?: string
  readonly "Actual Rows": number
  readonly "Actual Loops": number
  readonly "Rows Removed by Filter"?: number
  readonly "Rows Removed by Index Recheck"?: number
  readonly Plans?: ReadonlyArray<PlanNode>
}

/** A step of a plan that reads a table or an index of it. */
export interface Scan {
  readonly node: string
  readonly table: string
  readonly index: string | undefined
  /** Which part of the index; `undefined` where it is all of it. */
  readonly condition: string | undefined
  /** How many rows it read. */
  readonly rows: number
}

/** A statement with its parameters. */
export interface Sent {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
  readonly name?: string
}

/** Asks a database for plans, on a session like those of the stores. */
export interface Planner {
  readonly query: (sql: string) => Promise<pg.QueryResult>
  /** Runs a statement for the first time, or as one that was prepared and run often; undoes it, and returns what it read. */
  readonly scansOf: (statement: Sent, run?: "first" | "later") => Promise<ReadonlyArray<Scan>>
}

interface Explained {
  readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: PlanNode }>
}

/** How often the server plans a prepared statement for its parameters. */
const plansBefore = 5

/** A parameter as SQL. */
const literal = (value: unknown): string => {
  if (value === null) return "NULL"
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString("hex")}'`
  return pg.escapeLiteral(
    Array.isArray(value)
      ? arrayText(
          value.map((item) => ({ item })),
          "item",
        )
      : typeof value === "string"
        ? value
        : JSON.stringify(value),
  )
}

const scansIn = (plan: PlanNode, tableOf: ReadonlyMap<string, string>): ReadonlyArray<Scan> => {
  const index = plan["Index Name"]
  const table = plan["Relation Name"] ?? (index === undefined ? undefined : tableOf.get(index))
  const below = (plan.Plans ?? []).flatMap((next) => scansIn(next, tableOf))
  if (table === undefined || !plan["Node Type"].includes("Scan")) return below
  const removed = (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Index Recheck"] ?? 0)
  const rows = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
  return [{ node: plan["Node Type"], table, index, condition: plan["Index Cond"], rows }, ...below]
}

/** A planner for the schema `kiln` of a database. */
export const openPlanner = (url: string): Effect.Effect<Planner, never, Scope.Scope> =>
  Effect.map(connected(clientConfig(connectionOptions({ url }), "plans")), (client) => ({
    query: (sql) => client.query(sql),
    scansOf: async ({ text, values }, run = "first") => {
      const indexes = await client.query<{ index: string; table: string }>(
        "SELECT indexname AS index, tablename AS table FROM pg_indexes WHERE schemaname = 'kiln'",
      )
      const explain = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)"
      const isPrepared = run === "later" && values.length > 0
      const execute = `EXECUTE explained (${values.map(literal).join(", ")})`
      await client.query("BEGIN")
      if (isPrepared) {
        await client.query(`PREPARE explained AS ${text}`)
        // From then on, the server keeps a plan for all values, unless it is dearer than those that it has made.
        for (let time = 0; time < plansBefore; time += 1) await client.query(`EXPLAIN ${execute}`)
      }
      const { rows } = isPrepared
        ? await client.query<Explained>(`${explain} ${execute}`)
        : await client.query<Explained>(`${explain} ${text}`, [...values])
      await client.query("ROLLBACK")
      if (isPrepared) await client.query("DEALLOCATE explained")
      const [explained] = rows[0]?.["QUERY PLAN"] ?? []
      if (explained === undefined) throw new Error(`there is no plan for ${text}`)
      return scansIn(explained.Plan, new Map(indexes.rows.map(({ index, table }) => [index, table])))
    },
  }))

/** Every statement that the verbs send to a store of every state, by calling them all. */
export const sentStatements = (url: string) =>
  Effect.gen(function* () {
    const query = vi.spyOn(pg.Client.prototype, "query")
    yield* Effect.provide(callEveryVerb, PostgresStores.layer({ url, poolSize: 2, notifications: false }))
    const sent = query.mock.calls.flatMap(([config]: ReadonlyArray<unknown>) =>
      typeof config === "object" && config !== null && "text" in config ? [config as Sent] : [],
    )
    query.mockRestore()
    return [
      ...new Map(
        sent.filter(({ text }) => /^(select|insert|update|delete|with)\b/.test(text)).map((one) => [one.text, one]),
      ).values(),
    ]
  })
