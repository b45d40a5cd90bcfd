import {
  type RawBuilder,
  type SelectModifierNode,
  type SelectQueryNode,
  sql,
  SqliteQueryCompiler,
  type TableNode,
} from "kysely"
import {
  type Built,
  compile as compileWith,
  type Given,
  once,
  Placeholder,
  placeholders,
  plentyName,
  queries,
} from "@kiln/sql-store"
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

/**
 * Writes `+?` for parameters, and constants as literals. SQLite, which is compiled with STAT4, plans a statement with a bare `?`
 * by the bound value, and so prepares it again after every binding, at ten times the cost of running it. The unary plus changes
 * no value and prevents that: the plan is always the one that the tests check.
 */
class StableQueryCompiler extends SqliteQueryCompiler {
  protected override appendValue(value: unknown): void {
    if (value instanceof Placeholder && value.name === plentyName) this.append("(select 1)")
    else if (value instanceof Placeholder) {
      this.append("+")
      super.appendValue(value)
    } else {
      // Indexes are declared for 0 and 1.
      this.appendImmediateValue(typeof value === "boolean" ? Number(value) : value)
    }
  }

  /** Adds the prefix, so that queries can use plain table names. */
  protected override visitTable(node: TableNode): void {
    const { name } = node.table.identifier
    if (isTable(name)) this.append(`"${tablePrefix}${name}"`)
    else super.visitTable(node)
  }

  /** The order in which rows are to be locked costs a sort, and orders nothing. */
  protected override visitSelectQuery(node: SelectQueryNode): void {
    const locks = node.limit === undefined && node.endModifiers?.some(({ modifier }) => modifier === "ForUpdate")
    const { orderBy: _, ...unordered } = node
    super.visitSelectQuery(locks === true ? unordered : node)
  }

  /** Rows are not locked: a transaction that writes holds the lock of the file. */
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (!/^(For|NoWait$|SkipLocked$)/.test(node.modifier ?? "")) super.visitSelectModifier(node)
  }
}

/** Builds typed queries but does not run them: each is compiled once and run by a `Transaction`. */
export const query = queries<Tables>()

export type Parameters = Readonly<Record<string, SqlValue>>

declare const row: unique symbol

/** A query with named parameters, built and compiled when it is first used. `Result` is the type of its rows. */
export interface Statement<P extends Parameters, Result> {
  readonly sql: string
  /** Returns the values in the order of the placeholders. */
  readonly bind: (parameters: P) => ReadonlyArray<SqlValue>
  readonly [row]?: Result
}

export type RowOf<S> = S extends Statement<infer _P, infer Result> ? Result : never

export type { Given }

/** Compiles a query that is not compiled yet. */
export const compile = (built: Built<unknown>) => compileWith(built, new StableQueryCompiler())

/** Declares a query. The type of `build`'s argument names its parameters. */
export const statement = <P extends Parameters, Result>(
  build: (given: Given<P>) => Built<Result>,
): Statement<P, Result> => {
  const compiled = once(() => {
    const { parameters, sql: text } = compile(build(placeholders<P>()))
    return { text, names: parameters.map(({ name }) => name) }
  })
  return {
    get sql() {
      return compiled().text
    },
    bind: (values) => compiled().names.map((name) => values[name] ?? null),
  }
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
 * `build` gets the items as a table with these columns, in one place. Compiled once, when it is first used, for one item: the statement for more repeats the
 * row of the item.
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
  build: (items: RawBuilder<Row<T, C>>, given: Given<P>) => Built<Result>,
): ListStatement<Values<T, C>, P, Result> => {
  const compiled = once(() => {
    const named = sql.join(columns.map((column, index) => sql`${sql.ref(`column${index + 1}`)} AS ${sql.ref(column)}`))
    const oneItem = sql`(${sql.join(columns.map((column) => sql.val(new Placeholder(camel(column), true))))})`
    const { parameters, sql: text } = compile(build(sql`(SELECT ${named} FROM (VALUES ${oneItem}))`, placeholders<P>()))
    const first = parameters.findIndex(({ isOfItem }) => isOfItem)
    const namesOf = (part: ReadonlyArray<Placeholder>) => part.map(({ name }) => name)
    return {
      text,
      before: namesOf(parameters.slice(0, first)),
      names: namesOf(parameters.slice(first, first + columns.length)),
      after: namesOf(parameters.slice(first + columns.length)),
    }
  })
  const rowText = `(${columns.map(() => "+?").join(", ")})`
  const texts = new Map<number, string>()
  const sqlOf = (length: number): string => {
    const known = texts.get(length)
    if (known !== undefined) return known
    const repeated = compiled().text.replace(rowText, Array.from({ length }, () => rowText).join(", "))
    texts.set(length, repeated)
    return repeated
  }
  const part = (items: ReadonlyArray<Parameters>): Statement<P, Result> => ({
    sql: sqlOf(items.length),
    bind: (values) => {
      const { after, before, names } = compiled()
      const bound: Array<SqlValue> = []
      for (const name of before) bound.push(values[name] ?? null)
      for (const item of items) for (const name of names) bound.push(item[name] ?? null)
      for (const name of after) bound.push(values[name] ?? null)
      return bound
    },
  })
  return {
    over: (values) => {
      const items = values as ReadonlyArray<Parameters>
      const parts: Array<Statement<P, Result>> = []
      let from = 0
      for (const length of lengths)
        for (; items.length - from >= length; from += length) parts.push(part(items.slice(from, from + length)))
      return parts
    },
    sqlOf,
  }
}
