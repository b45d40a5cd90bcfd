import { CompiledQuery, type Transaction as AnyTransaction } from "kysely"
import { sqliteCode } from "../sqliteErrors.ts"
import type { SqlText } from "./Replay.ts"
import type { StoreFile } from "./StoreFile.ts"

/** A transaction of Kysely, of whichever version: what is looked at before it is used. */
export interface KyselyTransaction {
  readonly isTransaction: true
  executeQuery(query: never): Promise<unknown>
  withoutPlugins(): unknown
}

type Callers = AnyTransaction<{ readonly kiln: { readonly kiln: number } }>

export const isKyselyTransaction = (handle: unknown): handle is Callers =>
  typeof handle === "object" &&
  handle !== null &&
  Reflect.get(handle, "isTransaction") === true &&
  ["executeQuery", "withoutPlugins", "selectFrom"].every((name) => typeof Reflect.get(handle, name) === "function")

/** How SQLite's dialects, and no others, write a query. Nothing is sent: what another database refuses ends its transaction. */
const probe = `select "kiln" from "kiln" where "kiln" = ?`
const speaksSqlite = (transaction: Callers): boolean =>
  transaction.selectFrom("kiln").select("kiln").where("kiln", "=", 1).compile().sql === probe

/** Asks through a caller's transaction, without its plugins, which might rename what comes back. */
export class KyselyConversation {
  readonly #transaction: Callers

  private constructor(transaction: Callers) {
    this.#transaction = transaction
  }

  /** Anything but an open transaction on the store's own file is a `TypeError`. */
  static async begin(transaction: Callers, file: StoreFile): Promise<KyselyConversation> {
    const plain = transaction.withoutPlugins()
    if (!speaksSqlite(plain)) throw new TypeError("the transaction is not one of a SQLite dialect of Kysely")
    const conversation = new KyselyConversation(plain)
    file.expectSame(await conversation.#databases())
    return conversation
  }

  async ask({ sql, values }: SqlText): Promise<{ readonly rows: ReadonlyArray<unknown>; readonly changes: number }> {
    const query = CompiledQuery.raw(sql, [...values])
    const { numAffectedRows, rows } = await this.#transaction.executeQuery(query)
    return { rows, changes: Number(numAffectedRows ?? 0) }
  }

  async #databases(): Promise<ReadonlyArray<unknown>> {
    try {
      return (await this.ask({ sql: "PRAGMA database_list", values: [] })).rows
    } catch (error) {
      if (sqliteCode(error) !== undefined) throw error
      throw new TypeError("the transaction takes no more queries: it was committed or rolled back", { cause: error })
    }
  }
}

/** Whether it ended, as far as it says. */
export const isOver = (transaction: Callers): boolean =>
  ["isCommitted", "isRolledBack"].some((name) => Reflect.get(transaction, name) === true)
