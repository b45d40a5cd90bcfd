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
  compile,
  type Fields,
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

/** Builds typed queries, without the schema. They are compiled once and run by a `Session`. */
export const query = queries<Tables>()

export type Values = Readonly<Record<string, SqlValue>>

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
  batchStatement,
  type BatchTable,
  camel,
  excluded,
  fieldsOf,
  flag,
  type Given,
  integer,
  type ItemOf,
  nullable,
  plenty,
  type RowOf,
  statement,
  text,
  wholeAge,
} from "@kiln/sql-store"

/** Store time minus `ms` milliseconds. */
export const ago = (ms: RawBuilder<number>): RawBuilder<number> => sql<number>`(${storeTime} - ${whole(ms)})`

const schemaOfTables = new WithSchemaPlugin(defaultSchema)

const withSchema = (node: RootOperationNode): RootOperationNode =>
  schemaOfTables.transformQuery({ node, queryId: createQueryId() })

/** The types of a column on Postgres. */
const sqlTypes = { integer: "bigint", real: "double precision", text: "text", bytes: "bytea", flag: "boolean" } as const

const nameIn = (field: string): string => `item.${field}`

/**
 * The items of a batch as a table: each field is one array parameter, and `unnest` turns them into rows. The statement does not depend on
 * the number of items, so it is prepared once.
 */
const itemOf = <Item>(declared: Fields): BatchTable<Item> => {
  // Subqueries, so that the planner does not see how many items there are: it would plan each size anew.
  const arrays = Object.entries(declared).map(
    ([field, { type }]) => sql`(select ${sql.val(new Placeholder(nameIn(field)))}::${sql.raw(sqlTypes[type])}[])`,
  )
  const names = sql.join([...Object.keys(declared), "ord"].map((field) => sql.id(field)))
  return sql<BatchRow<Item>>`unnest(${sql.join(arrays)}) with ordinality`.as<"item">(sql`item(${names})`)
}

/** A statement as a session sends it. */
interface Compiled {
  readonly sql: string
  /** The name of the prepared statement, the same on every connection. */
  readonly name: string
  /** The parameters in the order of the placeholders, or the fields of the items that are one array each. */
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly field: string | undefined }>
}

const known = new WeakMap<AnyStatement | AnyBatch, Compiled>()
let statements = 0

/** Returns the text of a statement. Compiles it when it is first asked for. */
export const compiled = (statement: AnyStatement | AnyBatch): Compiled => {
  const before = known.get(statement)
  if (before !== undefined) return before
  const [built, fields] =
    "built" in statement
      ? [statement.built, []]
      : [statement.build(itemOf(statement.fields), placeholders<never>()), Object.keys(statement.fields)]
  const { parameters, sql: text } = compile(built, new NamedParameterCompiler(), withSchema)
  const fieldOf = new Map(fields.map((field) => [nameIn(field), field]))
  statements += 1
  const own = {
    sql: text,
    name: `kiln_${statements}`,
    parameters: parameters.map(({ name }) => ({ name, field: fieldOf.get(name) })),
  }
  known.set(statement, own)
  return own
}

/** Returns the values of a statement in the order of its placeholders. */
export const valuesOf = ({ parameters }: Compiled, given: Values, items: ReadonlyArray<object> = []): Array<SqlValue> =>
  parameters.map(({ field, name }) => (field === undefined ? (given[name] ?? null) : arrayText(items, field as never)))

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
