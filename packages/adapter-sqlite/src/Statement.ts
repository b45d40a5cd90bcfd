import {
  type RawBuilder,
  type SelectModifierNode,
  type SelectQueryNode,
  sql,
  SqliteQueryCompiler,
  type TableNode,
} from "kysely"
import {
  type AnyBatch,
  type AnyStatement,
  type BatchTable,
  type Built,
  compile,
  type Given,
  once,
  type Parameters,
  Placeholder,
  placeholders,
  plentyName,
  queries,
  type SqlValue as CommonValue,
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

export { type Given, type RowOf, statement } from "@kiln/sql-store"

/** A statement as SQLite runs it. */
interface Compiled {
  readonly sql: string
  readonly writes: boolean
  /** In the order of the placeholders. */
  readonly parameters: ReadonlyArray<Placeholder>
}

/** One item of a batch as a table: SQLite runs the statement for each. */
const itemOf = <Item extends Parameters>(fields: object): BatchTable<Item> => {
  const values = Object.keys(fields).map((name) => sql`${sql.val(new Placeholder(name, true))} as ${sql.id(name)}`)
  return sql<Item & { readonly ord: number }>`(select ${sql.join(values)}, 1 as ord)`.as("item")
}

const compileQuery = (built: Built<unknown>) => compile(built, new StableQueryCompiler())

const known = new WeakMap<AnyStatement | AnyBatch, Compiled>()

/** Returns the text of a statement. Compiles it when it is first asked for. */
export const compiled = (statement: AnyStatement | AnyBatch): Compiled => {
  const before = known.get(statement)
  if (before !== undefined) return before
  const { parameters, sql: text } = compileQuery(
    "built" in statement ? statement.built : statement.build(itemOf(statement.fields), placeholders<never>()),
  )
  const own = { sql: text, writes: !text.startsWith("select"), parameters }
  known.set(statement, own)
  return own
}

/** Returns a value as SQLite takes it, which has no booleans. */
export const toSqlValue = (value: CommonValue | undefined): SqlValue =>
  typeof value === "boolean" ? Number(value) : (value ?? null)

/** A statement with its values. */
export interface SqlText {
  readonly sql: string
  readonly values: ReadonlyArray<SqlValue>
}

declare const row: unique symbol

/** Lengths of lists that have a statement of their own. Other lists are split. */
const lengths = [64, 16, 4, 1] as const

/**
 * A statement about a list of items. One call for many rows costs about half of a call for each: SQLite prepares for the failure
 * of every statement that fires triggers.
 */
export interface ListStatement<Item, P extends object, Result> {
  /** Returns what to run for these items, in order. */
  readonly over: (items: ReadonlyArray<Item>, parameters: P) => ReadonlyArray<SqlText>
  readonly sqlOf: (length: number) => string
  readonly [row]?: Result
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
  const compiledList = once(() => {
    const named = sql.join(columns.map((column, index) => sql`${sql.ref(`column${index + 1}`)} AS ${sql.ref(column)}`))
    const oneItem = sql`(${sql.join(columns.map((column) => sql.val(new Placeholder(camel(column), true))))})`
    const { parameters, sql: text } = compileQuery(
      build(sql`(SELECT ${named} FROM (VALUES ${oneItem}))`, placeholders<P>()),
    )
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
    const before = texts.get(length)
    if (before !== undefined) return before
    const repeated = compiledList().text.replace(rowText, Array.from({ length }, () => rowText).join(", "))
    texts.set(length, repeated)
    return repeated
  }
  const part = (items: ReadonlyArray<Parameters>, given: Parameters): SqlText => {
    const { after, before, names } = compiledList()
    const values: Array<SqlValue> = []
    for (const name of before) values.push(toSqlValue(given[name]))
    for (const item of items) for (const name of names) values.push(toSqlValue(item[name]))
    for (const name of after) values.push(toSqlValue(given[name]))
    return { sql: sqlOf(items.length), values }
  }
  return {
    over: (values, parameters) => {
      const items = values as ReadonlyArray<Parameters>
      const parts: Array<SqlText> = []
      let from = 0
      for (const length of lengths)
        for (; items.length - from >= length; from += length)
          parts.push(part(items.slice(from, from + length), parameters))
      return parts
    },
    sqlOf,
  }
}
