import { sql } from "kysely"
import {
  type Answer,
  type AnyBatch,
  type AnyStatement,
  appendEntry,
  type BatchTable,
  Known,
  type Parameters as CommonParameters,
  Placeholder,
  placeholders,
  type Program,
  type Sql,
  type SqlValue as CommonValue,
  timeName,
  type Transactions,
} from "@kiln/sql-store"
import * as Effect from "effect/Effect"
import { Audited, changeMade } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { SqlValue } from "./SqliteDatabase.ts"
import { compile, type Statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

interface Own {
  readonly statement: Statement<never, unknown>
  readonly needsTime: boolean
  readonly writes: boolean
}

/** SQLite has no booleans. */
const stored = (value: CommonValue | undefined): SqlValue =>
  typeof value === "boolean" ? Number(value) : (value ?? null)

const nameIn = (field: string): string => `item.${field}`

const itemOf = <Item extends CommonParameters>(declared: object): BatchTable<Item> => {
  const fields = Object.keys(declared).map((name) => sql`${sql.val(new Placeholder(nameIn(name)))} as ${sql.id(name)}`)
  return sql<Item & { readonly ord: number }>`(select ${sql.join(fields)}, 1 as ord)`.as("item")
}

type Items = ReadonlyArray<CommonParameters>

const compiled = new WeakMap<AnyStatement | AnyBatch, Own>()

const ownOf = (statement: AnyStatement | AnyBatch): Own => {
  const known = compiled.get(statement)
  if (known !== undefined) return known
  const { parameters, sql: text } = compile(
    "built" in statement ? statement.built : statement.build(itemOf(statement.fields), placeholders<never>()),
  )
  const names = parameters.map(({ name }) => name)
  const bind = (values: CommonParameters) => names.map((name) => stored(values[name]))
  const own = {
    statement: { sql: text, bind },
    needsTime: names.includes(timeName),
    writes: !text.startsWith("select"),
  }
  compiled.set(statement, own)
  return own
}

/** A transaction as common programs see it. Every answer is there when the call returns. */
class TransactionSql implements Sql {
  readonly #tx: Transaction

  constructor(tx: Transaction) {
    this.#tx = tx
  }

  now(): Answer<number> {
    return new Known(this.#tx.now)
  }

  all(asked: AnyStatement, parameters: CommonParameters): Answer<ReadonlyArray<never>> {
    const own = ownOf(asked)
    return new Known(this.#tx.all(own.statement, this.#given(own, parameters)) as ReadonlyArray<never>)
  }

  get(asked: AnyStatement, parameters: CommonParameters): Answer<undefined> {
    const own = ownOf(asked)
    return new Known(this.#tx.get(own.statement, this.#given(own, parameters)) as undefined)
  }

  run(asked: AnyStatement, parameters: CommonParameters): Answer<number> {
    const own = ownOf(asked)
    return new Known(this.#tx.run(own.statement, this.#given(own, parameters)))
  }

  batch(asked: AnyBatch, items: Items, parameters: CommonParameters = {}): Answer<ReadonlyArray<never>> {
    const own = ownOf(asked)
    const rowsOf = (given: never): ReadonlyArray<unknown> =>
      own.writes ? this.#tx.runReturning(own.statement, given) : this.#tx.all(own.statement, given)
    return new Known(items.flatMap((item) => rowsOf(this.#given(own, parameters, item)) as ReadonlyArray<never>))
  }

  runBatch(asked: AnyBatch, items: Items, parameters: CommonParameters = {}): Answer<number> {
    const own = ownOf(asked)
    return new Known(
      items.reduce((sum, item) => sum + this.#tx.run(own.statement, this.#given(own, parameters, item)), 0),
    )
  }

  lock(): Answer<void> {
    return new Known(undefined)
  }

  #given({ needsTime }: Own, parameters: CommonParameters, item?: CommonParameters): never {
    if (!needsTime && item === undefined) return parameters as never
    const given: Record<string, CommonValue> = { ...parameters }
    for (const [field, value] of Object.entries(item ?? {})) given[nameIn(field)] = value
    if (needsTime) given[timeName] = this.#tx.now
    return given as never
  }
}

/** Runs a program at once, within a transaction. */
export const runIn = <A>(tx: Transaction, program: (sql: Sql) => Program<A>): A => {
  const { done, value } = program(new TransactionSql(tx)).next()
  if (done !== true) throw new TypeError("a program in SQLite has nothing to wait for")
  return value
}

/** Runs common programs in the transactions of this database. */
export const transactionsOf = (db: Pick<Database, "read" | "write">): Transactions => ({
  read: (operation, program) => db.read(operation, (tx) => runIn(tx, program)),
  write: (operation, program) => db.write(operation, (tx) => runIn(tx, program)),
})

/** A database whose transactions also record the change that they are part of (`Audited`). */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) =>
    Effect.flatMap(Audited, (verb) =>
      verb === undefined
        ? db.write(operation, work)
        : db.write(operation, (tx) => {
            const answer = work(tx)
            const made = changeMade(verb, answer)
            if (made !== undefined) runIn(tx, (common) => appendEntry(common, made))
            return answer
          }),
    ),
})
