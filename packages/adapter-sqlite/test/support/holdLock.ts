// Holds the write lock of a database for some milliseconds: `holdLock.ts PATH MS`. Prints `held` once it has the lock.
import Sqlite from "better-sqlite3"

const [path = "", ms = "0"] = process.argv.slice(2)
const database = new Sqlite(path, { timeout: 5_000 })
database.exec("BEGIN IMMEDIATE")
console.log("held")
setTimeout(() => {
  database.exec("COMMIT")
  database.close()
  console.log("released")
}, Number(ms))
