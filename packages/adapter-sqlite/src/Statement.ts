import {
  type Compilable,
  DummyDriver,
  type Expression,
  Kysely,
  sql,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TableNode,
} from "kysely"
import { isTable, tablePrefix, type Tables } from "./columns.ts"
import type { SqlValue } from "./SqliteDatabase.ts"

/** A parameter whose value is bound when the statement runs. */
class Placeholder {
  readonly name: string
  constructor(name: string) {
    this.name = name
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

/** A query with named parameters, compiled when its module is loaded. `Row` is the type of its rows. */
export interface Statement<P extends Parameters, Row> {
  readonly sql: string
  /** Returns the values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

/** The rows of a statement. */
export type RowOf<S> = S extends Statement<infer _P, infer Row> ? Row : never

/** The parameters of a statement, as expressions in its query. */
export type Given<P extends Parameters> = { readonly [Name in keyof P]: Expression<P[Name]> }

const placeholders = <P extends Parameters>(): Given<P> =>
  new Proxy({} as Given<P>, { get: (_target, name) => sql.val(new Placeholder(String(name))) })

/** Compiles a query. The type of `build`'s argument names its parameters. */
export const statement = <P extends Parameters, Row>(
  build: (given: Given<P>) => Compilable<Row>,
): Statement<P, Row> => {
  const compiled = build(placeholders<P>()).compile()
  const names = compiled.parameters.map((parameter) => {
    if (!(parameter instanceof Placeholder)) throw new TypeError("a statement may only have named parameters")
    return parameter.name
  })
  return {
    sql: compiled.sql,
    bind: (parameters) => names.map((name) => parameters[name] ?? null),
  }
}
