import type { SqlValue } from "./SqliteDatabase.ts"
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
import { isTable, prefix } from "./TableNames.ts"
import type { Tables } from "./Tables.ts"

/** A parameter to be filled in when the statement runs. */
class Placeholder {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

/**
 * Writes `+?` for a parameter and constants as literals. With a bare `?`, this SQLite (compiled with
 * STAT4) looks at what is bound to decide on a plan, and so prepares the statement anew each time
 * something is bound: ten times the cost of running it. Behind a unary plus, which changes no
 * value, it does not look, and the plan is the one that the tests see.
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

  /** Queries say `jobs`, like the rest of kiln: where the tables have a prefix is nobody else's business. */
  protected override visitTable(node: TableNode): void {
    const { name } = node.table.identifier
    if (isTable(name)) this.append(`"${prefix}${name}"`)
    else super.visitTable(node)
  }
}

/** Builds typed queries and runs none: they are compiled once and run by a `Transaction`. */
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

/** A query with named parameters, compiled when its module is loaded. `Row` is what it returns. */
export interface Statement<P extends Parameters, Row> {
  readonly sql: string
  /** The values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Row
}

/** The rows of a statement. */
export type RowOf<S> = S extends Statement<infer _P, infer Row> ? Row : never

/** The parameters of a statement as its query sees them. */
export type Given<P extends Parameters> = { readonly [Name in keyof P]: Expression<P[Name]> }

const placeholders = <P extends Parameters>(): Given<P> =>
  new Proxy({} as Given<P>, { get: (_target, name) => sql.val(new Placeholder(String(name))) })

/** Compiles a query whose parameters are named by the type of `build`'s argument. */
export const statement = <P extends Parameters, Row>(
  build: (given: Given<P>) => Compilable<Row>,
): Statement<P, Row> => {
  const compiled = build(placeholders<P>()).compile()
  const names = compiled.parameters.map((parameter) => {
    if (!(parameter instanceof Placeholder)) throw new TypeError("a statement has named parameters only")
    return parameter.name
  })
  return {
    sql: compiled.sql,
    bind: (parameters) => names.map((name) => parameters[name] ?? null),
  }
}
