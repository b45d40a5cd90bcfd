import { CompiledQuery, type Transaction as AnyTransaction } from "kysely"
import { sqliteCode } from "../sqliteErrors.ts"
import type { Answer, SqlText } from "./runWithAnswers.ts"
import type { StoreFile } from "./StoreFile.ts"

/** A transaction of Kysely of any version: the members that are checked before it is used. */
export interface KyselyTransaction {
  readonly isTransaction: true
  executeQuery(query: never): Promise<unknown>
  withoutPlugins(): unknown
}

export type KyselyHandle = AnyTransaction<{ readonly kiln: { readonly kiln: number } }>

export const isKyselyTransaction = (handle: unknown): handle is KyselyHandle =>
  typeof handle === "object" &&
  handle !== null &&
  Reflect.get(handle, "isTransaction") === true &&
  ["executeQuery", "withoutPlugins", "selectFrom"].every((name) => typeof Reflect.get(handle, name) === "function")

/** A query that only SQLite's dialects write. Nothing is sent, because a rejected query would end another database's transaction. */
const probe = `select "kiln" from "kiln" where "kiln" = ?`
const isSqliteDialect = (transaction: KyselyHandle): boolean =>
  transaction.selectFrom("kiln").select("kiln").where("kiln", "=", 1).compile().sql === probe

/** Runs statements in a caller's transaction, without its plugins, which might rename columns. */
export class KyselyConnection {
  readonly #transaction: KyselyHandle

  private constructor(transaction: KyselyHandle) {
    this.#transaction = transaction
  }

  /** Rejects with `TypeError` unless the transaction is open and on the store's own file. */
  static async open(transaction: KyselyHandle, file: StoreFile): Promise<KyselyConnection> {
    const plain = transaction.withoutPlugins()
    if (!isSqliteDialect(plain)) throw new TypeError("the Kysely transaction must use a SQLite dialect")
    const connection = new KyselyConnection(plain)
    file.expectSame(await connection.#databases())
    return connection
  }

  async ask({ sql, values }: SqlText): Promise<Answer> {
    const query = CompiledQuery.raw(sql, [...values])
    const { insertId, numAffectedRows, rows } = await this.#transaction.executeQuery(query)
    return { rows, changes: Number(numAffectedRows ?? 0), lastInsertRowid: insertId ?? 0 }
  }

  async #databases(): Promise<ReadonlyArray<unknown>> {
    try {
      return (await this.ask({ sql: "PRAGMA database_list", values: [] })).rows
    } catch (error) {
      if (sqliteCode(error) !== undefined) throw error
      throw new TypeError("the transaction has ended: it was committed or rolled back", { cause: error })
    }
  }
}

/** Whether the transaction reports that it has ended. */
export const isOver = (transaction: KyselyHandle): boolean =>
  ["isCommitted", "isRolledBack"].some((name) => Reflect.get(transaction, name) === true)
