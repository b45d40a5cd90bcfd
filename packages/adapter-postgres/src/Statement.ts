import {
  type AliasedRawBuilder,
  type Compilable,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from "kysely"
import type { Tables } from "./columns.ts"

/** What a parameter may be. Whole numbers are `bigint` on the server, and always safe integers here. */
export type SqlValue = string | number | boolean | null | Uint8Array | ReadonlyArray<string | number | boolean | null>

/** A parameter to be filled in when the statement runs. */
class Placeholder {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

/** The schema that statements and migrations are written for; `inSchema` puts them into another one. */
const defaultSchema = "kiln"

/** One `$n` for each name, however often it occurs; constants are literals, so that plans are made for them. */
class NamedParameterCompiler extends PostgresQueryCompiler {
  readonly #numbers = new Map<string, number>()

  override compileQuery(...args: Parameters<PostgresQueryCompiler["compileQuery"]>) {
    this.#numbers.clear()
    return super.compileQuery(...args)
  }

  protected override appendValue(value: unknown): void {
    if (!(value instanceof Placeholder)) return this.appendImmediateValue(value)
    const known = this.#numbers.get(value.name)
    if (known !== undefined) return this.append(`$${known}`)
    this.#numbers.set(value.name, this.#numbers.size + 1)
    super.appendValue(value)
  }
}

/** Builds typed queries and runs none: they are compiled once and run by a `Session`. */
export const query = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new NamedParameterCompiler(),
  },
}).withSchema(defaultSchema)

export type Values = Readonly<Record<string, SqlValue>>

declare const row: unique symbol

/** A query with named parameters, compiled when its module is loaded. `Row` is what it returns. */
export interface Statement<P extends Values, Row> {
  readonly sql: string
  /** Names a prepared statement on the server: the same on every connection. */
  readonly name: string
  /** The values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

/** The rows of a statement. */
export type RowOf<S> = S extends Statement<infer _P, infer Row> ? Row : never

/** The parameters of a statement as its query sees them. */
export type Given<P extends Values> = { readonly [Name in keyof P]: RawBuilder<P[Name]> }

const placeholder = (name: string) => sql.val(new Placeholder(name))

const placeholders = <P extends Values>(): Given<P> =>
  new Proxy({} as Given<P>, { get: (_target, name) => placeholder(String(name)) })

let statements = 0

const compile = (built: Compilable) => {
  const compiled = built.compile()
  const names = compiled.parameters.map((parameter) => {
    if (!(parameter instanceof Placeholder)) throw new TypeError("a statement has named parameters only")
    return parameter.name
  })
  statements += 1
  return { sql: compiled.sql, names, name: `kiln_${statements}` }
}

/** A parameter where nothing around it says that it is a whole number, as in the list of a SELECT. */
export const whole = (parameter: RawBuilder<number>): RawBuilder<number> => sql<number>`${parameter}::bigint`

/** Store time, for statements that no transaction tells it. Computed once a statement, so that an index can be searched by it. */
export const storeTime: RawBuilder<number> = sql<number>`(select "${sql.raw(defaultSchema)}".store_time())`

/** An age that a caller gives, in whole milliseconds: a fraction more is the next, and for ever is longer than anything is old. */
export const wholeAge = (ms: number): number => Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER - 1)

/** The store time that many milliseconds ago. */
export const ago = (ms: RawBuilder<number>): RawBuilder<number> => sql<number>`(${storeTime} - ${whole(ms)})`

/** Compiles a query whose parameters are named by the type of `build`'s argument. */
export const statement = <P extends Values, Row>(build: (given: Given<P>) => Compilable<Row>): Statement<P, Row> => {
  const { name, names, sql: text } = compile(build(placeholders<P>()))
  return { sql: text, name, bind: (parameters) => names.map((parameter) => parameters[parameter] ?? null) }
}

/** How a column of a batch travels. */
export type ColumnType = "text" | "bigint" | "boolean" | "double precision"

/** An item of a batch, with its place in it, counted from 1. */
export type BatchRow<Item> = Item & { readonly ord: number }

/** The batch inside its query: a table named `item`, with the fields of an item as its columns. */
export type BatchTable<Item> = AliasedRawBuilder<BatchRow<Item>, "item">

/** A statement over many items in one round trip. */
export interface BatchStatement<Item, P extends Values, Row> {
  readonly sql: string
  readonly name: string
  readonly bind: (items: ReadonlyArray<Item>, parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

/**
 * Compiles a query over a batch: each field of the items becomes one array parameter, and `unnest` makes them a table.
 * However many items there are, the statement is the same and is prepared once.
 */
export const batchStatement = <
  Item extends { readonly [Name in keyof Item]: string | number | boolean | null },
  P extends Values,
  Row,
>(
  columns: { readonly [Name in keyof Item]: ColumnType },
  build: (item: BatchTable<Item>, given: Given<P>) => Compilable<Row>,
): BatchStatement<Item, P, Row> => {
  const fields = Object.keys(columns) as Array<keyof Item & string>
  const arrays = sql.join(fields.map((field) => sql`${placeholder(`item.${field}`)}::${sql.raw(columns[field])}[]`))
  const names = sql.join([...fields, "ord"].map((field) => sql.id(field)))
  const item = sql<BatchRow<Item>>`unnest(${arrays}) with ordinality`.as<"item">(sql`item(${names})`)
  const { name, names: order, sql: text } = compile(build(item, placeholders<P>()))
  return {
    sql: text,
    name,
    bind: (items, parameters) =>
      order.map((parameter) =>
        parameter.startsWith("item.")
          ? items.map((one) => one[parameter.slice("item.".length) as keyof Item])
          : (parameters[parameter] ?? null),
      ),
  }
}

/** A text written for the schema `kiln`, in the schema the store was opened with. The name was checked to be plain. */
export const inSchema = (text: string, schema: string): string =>
  schema === defaultSchema ? text : text.replaceAll(`"${defaultSchema}".`, `"${schema}".`)
