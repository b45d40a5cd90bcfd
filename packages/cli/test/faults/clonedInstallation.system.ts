import { join } from "node:path"
import { freshDatabase, postgresServer, readRows, withClient } from "@kiln/postgres-lab"
import { run, temporaryDirectory, until } from "@kiln/service-lab"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import type { Api } from "../support/Api.ts"
import { copySqlite } from "../support/copies.ts"
import { speechGate } from "../support/speechGate.ts"
import { liveCaller, slowSpeech, type Service, startService } from "./support/Service.ts"

const refusal = /is a copy, or was moved by copying: it was last used in .* No job is run, charged or deleted here/

/** Jobs of which two run, and the others are queued, until their gate opens. */
const order = async (live: Api, text: string): Promise<ReadonlyArray<string>> =>
  Promise.all(Array.from({ length: 6 }, () => live.createSpeech(text)))

const started = (service: Service, live: Api, ids: ReadonlyArray<string>) =>
  until(async () => {
    const jobs = await Promise.all(ids.map((id) => live.job(id)))
    return jobs.some(({ status }) => status === "processing") ? service : undefined
  })

const busy = { ...slowSpeech, KILN_CONCURRENCY: "2", KILN_PROJECT_CONCURRENCY: "0" }
const charges = "SELECT job_id FROM"

const finishAll = async (live: Api, ids: ReadonlyArray<string>): Promise<void> => {
  for (const id of ids)
    expect(await live.finished(id)).toMatchObject({ status: "done", billing: { status: "charged" } })
}

describe("a dump of a live installation, started beside it with default settings", () => {
  it("on SQLite runs, charges and deletes nothing, and says why", async () => {
    using data = temporaryDirectory()
    using gate = speechGate()
    using copy = temporaryDirectory()
    await using service = await startService(data.path, busy)
    const live = await liveCaller(service, data.path)
    const ids = await order(live, gate.text)
    await started(service, live, ids)
    copySqlite(data.path, copy.path)
    const rows = (directory: string, table: string) => {
      using database = new DatabaseSync(join(directory, "kiln.db"), { readOnly: true })
      return database.prepare(`SELECT * FROM ${table} ORDER BY 1`).all()
    }
    const before = rows(copy.path, "kiln_jobs")
    for (const files of [{}, { KILN_BLOBS: `file:${data.path}` }]) {
      const { exit, stderr } = await run(["serve"], { ...busy, ...files, KILN_DATA_DIR: copy.path, PORT: "0" })
      expect({ exit, stderr }).toEqual({ exit: 1, stderr: expect.stringMatching(refusal) })
    }
    gate.open()
    await finishAll(live, ids)
    expect(rows(copy.path, "kiln_jobs")).toEqual(before)
    expect(rows(copy.path, "kiln_charges")).toEqual([])
    expect(rows(data.path, "kiln_charges")).toHaveLength(ids.length)
  })

  it("on Postgres with its files in the database; also when their names are exchanged while a server runs", async () => {
    await using database = await freshDatabase()
    using data = temporaryDirectory()
    using gate = speechGate()
    const server = await postgresServer()
    const env = { ...busy, DATABASE_URL: database.url, KILN_BLOBS: "postgres" }
    await using service = await startService(data.path, env)
    const live = await liveCaller(service, data.path, env)
    const ids = await order(live, gate.text)
    await started(service, live, ids)
    const copyName = `${database.name}_copy`
    const cut = (client: { query: (sql: string) => Promise<unknown> }, ...names: ReadonlyArray<string>) =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN (${names.map((name) => `'${name}'`).join()})`,
      )
    // A database without connections can be copied. The service reconnects.
    await withClient(server, async (client) => {
      await client.query(`ALTER DATABASE ${database.name} ALLOW_CONNECTIONS false`)
      await cut(client, database.name)
      await client.query(`CREATE DATABASE ${copyName} TEMPLATE ${database.name}`)
      await client.query(`ALTER DATABASE ${database.name} ALLOW_CONNECTIONS true`)
    })
    const copyUrl = database.url.replace(database.name, copyName)
    try {
      const rowsOf = (url: string) =>
        readRows<[ReadonlyArray<object>, ReadonlyArray<object>]>(url, [
          "SELECT id, status, token, held FROM kiln.queue ORDER BY id",
          `${charges} kiln.charges ORDER BY 1`,
        ])
      const before = await rowsOf(copyUrl)
      expect(before[0].length).toBeGreaterThan(0)
      const beside = { ...env, DATABASE_URL: copyUrl, KILN_DATA_DIR: data.path, PORT: "0" }
      const { exit, stderr } = await run(["serve"], beside)
      expect({ exit, stderr }).toEqual({ exit: 1, stderr: expect.stringMatching(refusal) })

      const exchange = (from: string, to: string) =>
        withClient(server, async (client) => {
          for (const name of [from, to]) await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
          await cut(client, from, to)
          await client.query(`ALTER DATABASE ${from} RENAME TO ${database.name}_aside`)
          await client.query(`ALTER DATABASE ${to} RENAME TO ${from}`)
          await client.query(`ALTER DATABASE ${database.name}_aside RENAME TO ${to}`)
          for (const name of [from, to]) await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
        })
      await exchange(database.name, copyName)
      await service.kiln.says(/another database answers at this address/, "stderr")
      const { stderr: started2 } = await run(["serve"], { ...beside, DATABASE_URL: database.url })
      expect(started2).toMatch(refusal)
      // The copy has the name of the original.
      expect(await rowsOf(database.url)).toEqual(before)
      await exchange(database.name, copyName)
      gate.open()
      await finishAll(live, ids)
      expect(await rowsOf(copyUrl)).toEqual(before)
      expect((await rowsOf(database.url))[1]).toHaveLength(ids.length)
    } finally {
      await withClient(server, (client) => client.query(`DROP DATABASE IF EXISTS ${copyName} WITH (FORCE)`))
    }
  })
})
