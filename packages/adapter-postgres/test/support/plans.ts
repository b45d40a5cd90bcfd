import { Effect, type Scope } from "effect"
import type pg from "pg"
import { clientConfig } from "../../src/Connections.ts"
import { connectionOptions } from "../../src/openDatabase.ts"
import { connected } from "./databases.ts"

/** A node of a plan, as `EXPLAIN (FORMAT JSON)` writes it. */
interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Index Cond"?: string
  readonly Plans?: ReadonlyArray<PlanNode>
}

/** A step of a plan that reads a table or an index of it. */
export interface Scan {
  readonly node: string
  readonly table: string
  readonly index: string | undefined
  /** Which part of the index; `undefined` where it is all of it. */
  readonly condition: string | undefined
  /** The plan nodes above it, the nearest first. */
  readonly above: ReadonlyArray<string>
}

/** Asks a database for plans, on a session like those of the stores. */
export interface Planner {
  readonly query: (sql: string) => Promise<pg.QueryResult>
  /** What the plan reads that serves every value of the parameters: of a prepared statement the server keeps no other. */
  readonly scansOf: (sql: string) => Promise<ReadonlyArray<Scan>>
}

const scansIn = (
  plan: PlanNode,
  tableOf: ReadonlyMap<string, string>,
  above: ReadonlyArray<string> = [],
): ReadonlyArray<Scan> => {
  const index = plan["Index Name"]
  const table = plan["Relation Name"] ?? (index === undefined ? undefined : tableOf.get(index))
  const below = (plan.Plans ?? []).flatMap((next) => scansIn(next, tableOf, [plan["Node Type"], ...above]))
  if (table === undefined || !plan["Node Type"].includes("Scan")) return below
  return [{ node: plan["Node Type"], table, index, condition: plan["Index Cond"], above }, ...below]
}

/** A planner for the schema `kiln` of a database. */
export const openPlanner = (url: string): Effect.Effect<Planner, never, Scope.Scope> =>
  Effect.map(connected(clientConfig(connectionOptions({ url }), "plans")), (client) => ({
    query: (sql) => client.query(sql),
    scansOf: async (sql) => {
      const indexes = await client.query<{ index: string; table: string }>(
        "SELECT indexname AS index, tablename AS table FROM pg_indexes WHERE schemaname = 'kiln'",
      )
      const { rows } = await client.query<{ "QUERY PLAN": ReadonlyArray<{ readonly Plan: PlanNode }> }>(
        `EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${sql}`,
      )
      const [explained] = rows[0]?.["QUERY PLAN"] ?? []
      if (explained === undefined) throw new Error(`there is no plan for ${sql}`)
      return scansIn(explained.Plan, new Map(indexes.rows.map(({ index, table }) => [index, table])))
    },
  }))
