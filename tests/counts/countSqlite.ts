import { statSync } from "node:fs"
import Database from "better-sqlite3"

/** Work that reached a database file. */
export interface SqliteCounts {
  readonly statements: number
  /** Transactions that wrote, each of which waits for the disk. */
  readonly commits: number
  /** Pages that commits added to the write-ahead log. */
  readonly pages: number
}

type Method = (this: Statement, ...args: Array<unknown>) => unknown
interface Statement {
  readonly source: string
  readonly readonly: boolean
  readonly database: { readonly inTransaction: boolean; readonly name: string }
}

const frameBytes = 4_096 + 24

/**
 * Counts what all connections of this process do with the file at `path` until the counter is disposed. Only one counter may
 * exist at a time. The path must be the one that connections were opened with.
 */
export const countSqlite = (path: string) => {
  const reader = new Database(path)
  // While a reader has a snapshot, the log only grows.
  reader.exec("BEGIN")
  reader.prepare("SELECT count(*) FROM sqlite_schema").get([])
  const logBytes = (): number => statSync(`${path}-wal`).size
  const before = logBytes()
  let statements = 0
  let commits = 0
  let hasWritten = false
  const note = (statement: Statement, wasInTransaction: boolean): void => {
    statements += 1
    if (!statement.readonly && !/^\s*(begin|commit|end|savepoint|release)\b/i.test(statement.source)) hasWritten = true
    if (statement.database.inTransaction || !(wasInTransaction || hasWritten)) return
    if (hasWritten && !/^\s*rollback\b/i.test(statement.source)) commits += 1
    hasWritten = false
  }
  const prototype = Object.getPrototypeOf(reader.prepare("SELECT 1")) as Record<string, Method>
  const originals = ["run", "get", "all", "iterate"].map((name) => [name, prototype[name]] as const)
  for (const [name, original] of originals) {
    prototype[name] = function (...args) {
      if (this.database.name !== path) return original?.apply(this, args)
      const wasInTransaction = this.database.inTransaction
      const result = original?.apply(this, args)
      note(this, wasInTransaction)
      return result
    }
  }
  return {
    counts: (): SqliteCounts => ({ statements, commits, pages: Math.round((logBytes() - before) / frameBytes) }),
    [Symbol.dispose]: () => {
      for (const [name, original] of originals) if (original !== undefined) prototype[name] = original
      reader.exec("COMMIT")
      reader.close()
    },
  }
}
