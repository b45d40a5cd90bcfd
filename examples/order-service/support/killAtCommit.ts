// Preloaded into the service. Kills the process at the commit of its n-th order, either before or after it:
// `KILL_AT_COMMIT=before:3`.
// oxlint-disable typescript/unbound-method -- called with their database
import Database from "better-sqlite3"

const [when, nth] = (process.env["KILL_AT_COMMIT"] ?? "never:0").split(":")
const placing = new WeakSet<Database>()
let commits = 0

Database.prototype.prepare = new Proxy(Database.prototype.prepare, {
  apply: (prepare, db: Database, args: [string]) => {
    if (args[0].includes("INSERT INTO orders")) placing.add(db)
    return Reflect.apply(prepare, db, args)
  },
})

Database.prototype.exec = new Proxy(Database.prototype.exec, {
  apply: (exec, db: Database, args: [string]) => {
    const isKilled = args[0] === "COMMIT" && placing.delete(db) && ++commits === Number(nth)
    if (isKilled && when === "before") process.kill(process.pid, "SIGKILL")
    const result = Reflect.apply(exec, db, args)
    if (isKilled && when === "after") process.kill(process.pid, "SIGKILL")
    return result
  },
})
