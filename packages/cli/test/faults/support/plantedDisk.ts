// Preloaded into a service (`node --import`), to plant the bug named in PLANTED_BUG: a disk or database that does less than the
// service asked for.
import fs, { statSync } from "node:fs"
import { createRequire, syncBuiltinESMExports } from "node:module"
import { dirname, join } from "node:path"

const bug = process.env["PLANTED_BUG"]
const { open, rename } = fs.promises

const isDirectory = (path: fs.PathLike): boolean => statSync(path).isDirectory()

const unsynced = (skips: (path: fs.PathLike) => boolean): void => {
  fs.promises.open = async (path, ...others) => {
    const handle = await open(path, ...others)
    if (skips(path)) handle.sync = () => Promise.resolve()
    return handle
  }
}

type Run = (parameters: ReadonlyArray<unknown>) => unknown
interface Connection {
  isDue?: boolean
  close: () => unknown
  inTransaction: boolean
  open: boolean
  exec: (sql: string) => unknown
  prepare: (sql: string) => { run: Run }
  pragma: (sql: string, ...others: ReadonlyArray<unknown>) => unknown
}

const adapter = join(import.meta.dirname, "../../../../adapter-sqlite/package.json")
const driver = (): Connection => createRequire(adapter)("better-sqlite3").prototype

const unsyncedLog = (): void => {
  const connection = driver()
  const { pragma } = connection
  connection.pragma = function (this: Connection, sql, ...others) {
    return pragma.call(this, sql === "synchronous = FULL" ? "synchronous = NORMAL" : sql, ...others)
  }
}

/** Long enough that nearly every kill meets it. */
const lateMs = 300

/** Commits the statements of many steps together, later, although each COMMIT returns at once. */
const lateCommits = (): void => {
  const connection = driver()
  const { close, prepare } = connection
  connection.prepare = function (this: Connection, sql) {
    const statement = prepare.call(this, sql)
    if (sql !== "COMMIT" && !sql.startsWith("BEGIN")) return statement
    const now: Run = statement.run.bind(statement)
    const later = () => {
      if (this.isDue === true) return
      this.isDue = true
      setTimeout(() => {
        this.isDue = false
        if (this.open && this.inTransaction) now([])
      }, lateMs)
    }
    return Object.assign(statement, {
      run: sql === "COMMIT" ? later : () => (this.inTransaction ? undefined : this.exec("BEGIN IMMEDIATE")),
    })
  }
  connection.close = function (this: Connection) {
    if (this.inTransaction) this.exec("COMMIT")
    return close.call(this)
  }
}

const bugs: Readonly<Record<string, () => void>> = {
  "the log is not synced": unsyncedLog,
  "a blob is not synced": () => unsynced((path) => !isDirectory(path)),
  "names of blobs are not synced": () => unsynced(isDirectory),
  "the row is written before the blob": () => {
    fs.promises.rename = async (from, to) => {
      if (!String(to).endsWith(".blob")) return rename(from, to)
      // Its directory is there before it, as the store expects of a name that it has given.
      await fs.promises.mkdir(dirname(String(to)), { recursive: true })
      setTimeout(() => void rename(from, to).catch(() => undefined), lateMs)
    }
  },
  "answers are sent before the commit": lateCommits,
}

if (bug !== undefined) {
  const plant = bugs[bug]
  if (plant === undefined) throw new Error(`no such bug: ${bug}`)
  // Nothing of it reaches the program, which reads its settings from the environment.
  delete process.env["PLANTED_BUG"]
  plant()
  syncBuiltinESMExports()
}
