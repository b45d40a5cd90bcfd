import { Client } from "pg"
import type { Engine, Payload } from "./Engine.ts"

interface Row {
  readonly id: string
  readonly data: Payload
}

const schema = `
  CREATE TABLE IF NOT EXISTS jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data jsonb NOT NULL);
  CREATE TABLE IF NOT EXISTS open_jobs (id bigint PRIMARY KEY, claimed boolean NOT NULL);
  CREATE INDEX IF NOT EXISTS open_jobs_free ON open_jobs (id) WHERE NOT claimed`
const insert = `
  WITH made AS (INSERT INTO jobs (data) SELECT unnest($1::jsonb[]) RETURNING id)
  INSERT INTO open_jobs (id, claimed) SELECT id, false FROM made`
const claim = `
  WITH next AS (SELECT id FROM open_jobs WHERE NOT claimed ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
       mine AS (UPDATE open_jobs o SET claimed = true FROM next WHERE o.id = next.id RETURNING o.id)
  SELECT id, data FROM mine JOIN jobs USING (id)`
const complete = "DELETE FROM open_jobs WHERE id = ANY ($1::bigint[])"

/** No engine: prepared statements on two narrow tables, concurrent inserts in one commit, claims and completions by 500. */
export const rawPostgres: Engine = {
  open: async ({ onStart, place }) => {
    const client = new Client({ connectionString: place })
    await client.connect()
    await client.query("SELECT pg_advisory_lock(1)")
    await client.query(schema)
    await client.query("SELECT pg_advisory_unlock(1)")
    const insertAll = (payloads: ReadonlyArray<Payload>) =>
      client.query({ name: "insert", text: insert, values: [payloads.map((payload) => JSON.stringify(payload))] })
    let waiting: Array<Payload> = []
    let next: Promise<unknown> | undefined
    let last: Promise<unknown> = Promise.resolve()
    const run = async (): Promise<void> => {
      while (true) {
        const { rows } = await client.query<Row>({ name: "claim", text: claim })
        for (const { data } of rows) void onStart(data)
        const ids = rows.map(({ id }) => id)
        if (ids.length > 0) await client.query({ name: "complete", text: complete, values: [ids] })
        else await new Promise((resolve) => setTimeout(resolve, 1))
      }
    }
    return {
      add: (payload) => {
        waiting.push(payload)
        next ??= last.then(() => {
          const batch = waiting
          waiting = []
          next = undefined
          last = insertAll(batch)
          return last
        })
        return next
      },
      addMany: async (payloads) => {
        for (let from = 0; from < payloads.length; from += 1_000) await insertAll(payloads.slice(from, from + 1_000))
      },
      start: () => void run(),
      isEmpty: async () => (await client.query("SELECT 1 FROM open_jobs LIMIT 1")).rowCount === 0,
    }
  },
}
