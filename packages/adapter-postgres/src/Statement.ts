import {
  createQueryId,
  PostgresQueryCompiler,
  type RawBuilder,
  type RootOperationNode,
  sql,
  WithSchemaPlugin,
} from "kysely"
import {
  type AnyBatch,
  type AnyStatement,
  type BatchRow,
  type BatchTable,
  type Built,
  type Fields,
  type ItemOf,
  compile as compileWith,
  once,
  Placeholder,
  placeholders,
  plentyName,
  queries,
  type SqlValue as CommonValue,
  timeName,
} from "@kiln/sql-store"
import type { Tables } from "./columns.ts"

/** A parameter's value. Whole numbers are `bigint` on the server and safe integers here. */
export type SqlValue = CommonValue | ReadonlyArray<string | number | boolean | null>

/** The schema that statements and migrations are written for; `inSchema` replaces it. */
const defaultSchema = "kiln"

/** Evaluated once per statement, so that indexes can be searched by it. */
const timeText = `(select "${defaultSchema}".store_time())`

/** Uses one `$n` for each name, however often it occurs. Constants become literals, so that plans can use them. */
class NamedParameterCompiler extends PostgresQueryCompiler {
  readonly #numbers = new Map<string, number>()

  override compileQuery(...args: Parameters<PostgresQueryCompiler["compileQuery"]>) {
    this.#numbers.clear()
    return super.compileQuery(...args)
  }

  protected override appendValue(value: unknown): void {
    if (!(value instanceof Placeholder)) return this.appendImmediateValue(value)
    if (value.name === timeName) return this.append(timeText)
    if (value.name === plentyName) return this.append("generate_series(1, (select 1))")
    const known = this.#numbers.get(value.name)
    if (known !== undefined) return this.append(`$${known}`)
    this.#numbers.set(value.name, this.#numbers.size + 1)
    super.appendValue(value)
  }
}

/** Builds typed queries. They are compiled once and run by a `Session`. */
export const query = queries<Tables>().withSchema(defaultSchema)

export type Values = Readonly<Record<string, SqlValue>>

declare const row: unique symbol

/** A query with named parameters, built and compiled when it is first used. It returns rows of type `Row`. */
export interface Statement<P extends Values, Row> {
  readonly sql: string
  /** The name of the prepared statement, the same on every connection. */
  readonly name: string
  /** Returns the values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

export type RowOf<S> = S extends { readonly [row]?: infer Row } ? Row : never

/** The parameters of a statement as its query sees them. */
export type Given<P extends Values> = { readonly [Name in keyof P]: RawBuilder<P[Name]> }

const placeholder = (name: string) => sql.val(new Placeholder(name))

let statements = 0

const compile = (built: Built<unknown>, transform?: (node: RootOperationNode) => RootOperationNode) => {
  const { parameters, sql: text } = compileWith(built, new NamedParameterCompiler(), transform)
  statements += 1
  return { sql: text, names: parameters.map(({ name }) => name), name: `kiln_${statements}` }
}

/**
 * Hides the value of a number from the planner, which would otherwise plan a statement again for each value as long as some plans look a
 * little cheaper than the one for all values: 0.3 ms of the server's time for each claim under limits.
 */
export const hidden = (parameter: RawBuilder<number>): RawBuilder<number> => sql<number>`(select ${parameter}::bigint)`

/** Casts a parameter to bigint where its type cannot be inferred, as in a SELECT list. */
export const whole = (parameter: RawBuilder<number>): RawBuilder<number> => sql<number>`${parameter}::bigint`

/** Store time, for statements outside of a transaction. Evaluated once per statement, so that indexes can be searched by it. */
export const storeTime: RawBuilder<number> = sql<number>`${sql.raw(timeText)}`

export {
  assign,
  type BatchTable,
  camel,
  excluded,
  fieldsOf,
  flag,
  integer,
  type ItemOf,
  nullable,
  plenty,
  text,
  wholeAge,
} from "@kiln/sql-store"

/** Store time minus `ms` milliseconds. */
export const ago = (ms: RawBuilder<number>): RawBuilder<number> => sql<number>`(${storeTime} - ${whole(ms)})`

/** A statement as its session sees it, compiled when the session first asks. */
const lazily = <Bind>(compiled: () => { readonly sql: string; readonly name: string }, bind: Bind) => ({
  get sql() {
    return compiled().sql
  },
  get name() {
    return compiled().name
  },
  bind,
})

const statementOf = <P extends Values, Row>(
  build: () => Built<Row>,
  transform?: (node: RootOperationNode) => RootOperationNode,
): Statement<P, Row> => {
  const compiled = once(() => compile(build(), transform))
  return lazily(compiled, (parameters: P) => compiled().names.map((parameter) => parameters[parameter] ?? null))
}

/** Declares a query whose parameters are named by the type of `build`'s argument. */
export const statement = <P extends Values, Row>(build: (given: Given<P>) => Built<Row>): Statement<P, Row> =>
  statementOf(() => build(placeholders() as never))

/** Names the schema in a query of both databases. */
export const inDefaultSchema = new WithSchemaPlugin(defaultSchema)

const withSchema = (node: RootOperationNode): RootOperationNode =>
  inDefaultSchema.transformQuery({ node, queryId: createQueryId() })

const ownStatements = new WeakMap<AnyStatement, Statement<Values, unknown>>()

/** Compiles a statement of both databases, once. */
export const ownOf = (common: AnyStatement): Statement<Values, unknown> => {
  const known = ownStatements.get(common)
  if (known !== undefined) return known
  const own = statementOf<Values, unknown>(() => common.built, withSchema)
  ownStatements.set(common, own)
  return own
}

/** A statement over many items in one round trip. */
export interface BatchStatement<Item, P extends Values, Row> {
  readonly sql: string
  readonly name: string
  readonly bind: (items: ReadonlyArray<Item>, parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

/**
 * Declares a query over a batch, compiled when it is first used: each field of the items becomes one array parameter, and `unnest` turns them into a table. The
 * statement does not depend on the number of items, so it is prepared once.
 */
export const batchStatement = <F extends Fields, Row, P extends Values = {}>(
  fields: F,
  build: (item: BatchTable<ItemOf<F>>, given: Given<P>) => Built<Row>,
  transform?: (node: RootOperationNode) => RootOperationNode,
): BatchStatement<ItemOf<F>, P, Row> => {
  const compiled = once(() => compileBatch(fields, build, transform))
  return lazily(compiled, (items: ReadonlyArray<ItemOf<F>>, parameters: P) =>
    compiled().sources.map(({ field, parameter }) =>
      field === undefined ? (parameters[parameter] ?? null) : arrayText(items, field),
    ),
  )
}

/** The types of a column on Postgres. */
const sqlTypes = { integer: "bigint", real: "double precision", text: "text", bytes: "bytea", flag: "boolean" } as const

const compileBatch = <F extends Fields, P extends Values>(
  declared: F,
  build: (item: BatchTable<ItemOf<F>>, given: Given<P>) => Built<unknown>,
  transform?: (node: RootOperationNode) => RootOperationNode,
) => {
  const fields = Object.keys(declared)
  // Subqueries, so that the planner does not see how many items there are: it would plan each size anew.
  const arrays = sql.join(
    Object.entries(declared).map(
      ([field, { type }]) => sql`(select ${placeholder(`item.${field}`)}::${sql.raw(sqlTypes[type])}[])`,
    ),
  )
  const names = sql.join([...fields, "ord"].map((field) => sql.id(field)))
  const item = sql<BatchRow<ItemOf<F>>>`unnest(${arrays}) with ordinality`.as<"item">(sql`item(${names})`)
  const { name, names: order, sql: text } = compile(build(item, placeholders() as never), transform)
  const fieldOf = new Map(fields.map((field) => [`item.${field}`, field]))
  return { sql: text, name, sources: order.map((parameter) => ({ parameter, field: fieldOf.get(parameter) })) }
}

const ownBatches = new WeakMap<AnyBatch, BatchStatement<unknown, Values, unknown>>()

/** The same for a statement about the items of a batch. */
export const ownBatchOf = (common: AnyBatch): BatchStatement<unknown, Values, unknown> => {
  const known = ownBatches.get(common)
  if (known !== undefined) return known
  const own = batchStatement(
    common.fields,
    (item, given) => common.build(item as never, given),
    withSchema,
  ) as BatchStatement<never, never, unknown> as BatchStatement<unknown, Values, unknown>
  ownBatches.set(common, own)
  return own
}

/** Characters that end or escape a quoted element of an array. */
const special = /["\\]/

/** Writes a field of the items as the text of a Postgres array. The driver does the same in several passes over each element. */
export const arrayText = <Item>(items: ReadonlyArray<Item>, field: keyof Item): string => {
  let text = "{"
  for (const item of items) {
    const value = item[field]
    if (text.length > 1) text += ","
    if (value === null || value === undefined) text += "NULL"
    else if (typeof value !== "string") text += String(value)
    else text += `"${special.test(value) ? value.replaceAll(/["\\]/g, String.raw`\$&`) : value}"`
  }
  return `${text}}`
}

/** Replaces the schema `kiln` in SQL text by the store's schema, whose name has been validated. */
export const inSchema = (text: string, schema: string): string =>
  schema === defaultSchema ? text : text.replaceAll(`"${defaultSchema}".`, `"${schema}".`)
