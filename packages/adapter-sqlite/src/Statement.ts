import {
  type Compilable,
  DummyDriver,
  type Expression,
  Kysely,
  type RawBuilder,
  sql,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TableNode,
} from "kysely"
import {
  camel,
  type ColumnOf,
  isTable,
  type Row,
  type Table,
  tablePrefix,
  type Tables,
  type Values,
} from "./columns.ts"
import type { SqlValue } from "./SqliteDatabase.ts"

/** A parameter whose value is bound when the statement runs: of the whole statement, or of one item of its list. */
class Placeholder {
  readonly name: string
  readonly item: number | undefined
  constructor(name: string, item?: number) {
    this.name = name
    this.item = item
  }
}

/**
 * Writes `+?` for parameters, and constants as literals. SQLite, which is compiled with STAT4, plans a statement with a bare `?`
 * by the bound value, and so prepares it again after every binding, at ten times the cost of running it. The unary plus changes
 * no value and prevents that: the plan is always the one that the tests check.
 */
class StableQueryCompiler extends SqliteQueryCompiler {
  protected override appendValue(value: unknown): void {
    if (value instanceof Placeholder) {
      this.append("+")
      super.appendValue(value)
    } else {
      this.appendImmediateValue(value)
    }
  }

  /** Adds the prefix, so that queries can use plain table names. */
  protected override visitTable(node: TableNode): void {
    const { name } = node.table.identifier
    if (isTable(name)) this.append(`"${tablePrefix}${name}"`)
    else super.visitTable(node)
  }
}

/** Builds typed queries but does not run them: each is compiled once and run by a `Transaction`. */
export const query = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new StableQueryCompiler(),
  },
})

export type Parameters = Readonly<Record<string, SqlValue>>

declare const row: unique symbol

/** A query with named parameters, compiled when its module is loaded. `Result` is the type of its rows. */
export interface Statement<P extends Parameters, Result> {
  readonly sql: string
  /** Returns the values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Result
}

/** The rows of a statement. */
export type RowOf<S> = S extends Statement<infer _P, infer Result> ? Result : never

/** The parameters of a statement, as expressions in its query. */
export type Given<P extends Parameters> = { readonly [Name in keyof P]: Expression<P[Name]> }

const placeholders = <P extends Parameters>(): Given<P> =>
  new Proxy({} as Given<P>, { get: (_target, name) => sql.val(new Placeholder(String(name))) })

/** Compiles a query. The type of `build`'s argument names its parameters. */
export const statement = <P extends Parameters, Result>(
  build: (given: Given<P>) => Compilable<Result>,
): Statement<P, Result> => {
  const { parameters, sql: text } = compile(build(placeholders<P>()))
  const names = parameters.map(({ name }) => name)
  return {
    sql: text,
    bind: (values) => names.map((name) => values[name] ?? null),
  }
}

const compile = (built: Compilable): { readonly sql: string; readonly parameters: ReadonlyArray<Placeholder> } => {
  const compiled = built.compile()
  const parameters = compiled.parameters.map((parameter) => {
    if (!(parameter instanceof Placeholder)) throw new TypeError("a statement may only have named parameters")
    return parameter
  })
  return { sql: compiled.sql, parameters }
}

/** Lengths of lists that have a statement of their own. Other lists are split. */
const lengths = [64, 16, 4, 1] as const

/**
 * A statement about a list of items. One call for many rows costs about half of a call for each: SQLite prepares for the failure
 * of every statement that fires triggers.
 */
export interface ListStatement<Item, P extends Parameters, Result> {
  /** Returns the statements to run for these items, in order. */
  readonly over: (items: ReadonlyArray<Item>) => ReadonlyArray<Statement<P, Result>>
  readonly sqlOf: (length: number) => string
}

/**
 * `build` gets the items as a table with these columns. Compiled when first used.
 *
 * @example
 *   listStatement("jobs", ["seq", "token"], (items) => query.updateTable("jobs").from(items.as("given"))…)
 */
export const listStatement = <
  T extends Table,
  C extends ColumnOf<T>,
  P extends Parameters = Parameters,
  Result = unknown,
>(
  _table: T,
  columns: ReadonlyArray<C>,
  build: (items: RawBuilder<Row<T, C>>, given: Given<P>) => Compilable<Result>,
): ListStatement<Values<T, C>, P, Result> => {
  const known = new Map<number, ReturnType<typeof compile>>()
  const ofLength = (length: number) => {
    const found = known.get(length)
    if (found !== undefined) return found
    const named = sql.join(columns.map((column, index) => sql`${sql.ref(`column${index + 1}`)} AS ${sql.ref(column)}`))
    const rows = Array.from(
      { length },
      (_, item) => sql`(${sql.join(columns.map((column) => sql.val(new Placeholder(camel(column), item))))})`,
    )
    const compiled = compile(build(sql`(SELECT ${named} FROM (VALUES ${sql.join(rows)}))`, placeholders<P>()))
    known.set(length, compiled)
    return compiled
  }
  const part = (items: ReadonlyArray<Parameters>): Statement<P, Result> => {
    const { parameters, sql: text } = ofLength(items.length)
    return {
      sql: text,
      bind: (values) => parameters.map(({ item, name }) => (item === undefined ? values : items[item])?.[name] ?? null),
    }
  }
  return {
    over: (values) => {
      const items = values as ReadonlyArray<Parameters>
      const parts: Array<Statement<P, Result>> = []
      let from = 0
      for (const length of lengths)
        for (; items.length - from >= length; from += length) parts.push(part(items.slice(from, from + length)))
      return parts
    },
    sqlOf: (length) => ofLength(length).sql,
  }
}
