import Database from "better-sqlite3"
import type { Engine, Payload } from "./Engine.ts"

interface Row {
  readonly id: number
  readonly data: string
}

/** No engine: prepared statements on one narrow table, concurrent inserts in one commit, claims and completions by 500. */
export const rawSqlite: Engine = {
  open: ({ onStart, place }) => {
    const database = new Database(place)
    database.pragma("journal_mode = WAL")
    database.pragma("synchronous = FULL")
    database.exec(
      "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, data TEXT NOT NULL)",
    )
    database.exec("CREATE INDEX IF NOT EXISTS jobs_open ON jobs (id) WHERE state < 2")
    const insert = database.prepare("INSERT INTO jobs (state, data) VALUES (0, ?)")
    const insertAll = (payloads: ReadonlyArray<Payload>): void => {
      database.exec("BEGIN IMMEDIATE")
      for (const payload of payloads) insert.run([JSON.stringify(payload)])
      database.exec("COMMIT")
    }
    const claim = database.prepare(
      "UPDATE jobs SET state = 1 WHERE id IN (SELECT id FROM jobs WHERE state < 2 AND state = 0 ORDER BY id LIMIT 500) RETURNING id, data",
    )
    const complete = database.prepare("UPDATE jobs SET state = 2 WHERE id IN (SELECT value FROM json_each(?))")
    let waiting: Array<Payload> = []
    let shared: Promise<void> | undefined
    const flush = async (): Promise<void> => {
      // Callers of the same turn share the commit.
      await Promise.resolve()
      const batch = waiting
      waiting = []
      shared = undefined
      insertAll(batch)
    }
    const run = (): void => {
      const rows = claim.all([]) as Array<Row>
      for (const { data } of rows) void onStart(JSON.parse(data) as Payload)
      if (rows.length > 0) complete.run([JSON.stringify(rows.map(({ id }) => id))])
      setImmediate(run)
    }
    return Promise.resolve({
      add: (payload) => {
        waiting.push(payload)
        shared ??= flush()
        return shared
      },
      addMany: (payloads) => Promise.resolve(insertAll(payloads)),
      start: run,
      isEmpty: () =>
        Promise.resolve(database.prepare("SELECT 1 FROM jobs WHERE state < 2 LIMIT 1").get([]) === undefined),
    })
  },
}
