import { freshDatabase, postgresServer } from "@kiln/postgres-lab"
import pg from "pg"
import { describe, expect, it } from "vitest"
import { ask } from "./support/clients.ts"

const count = async (name: string): Promise<unknown> =>
  ask(await postgresServer(), `SELECT count(*)::int FROM pg_database WHERE datname = '${name}'`)

describe("freshDatabase", () => {
  it("is empty and separate, and is dropped at the end even if a client is connected", async () => {
    const first = await freshDatabase()
    const second = await freshDatabase()
    await ask(first.url, "CREATE TABLE mine (id int)")
    expect(await ask(first.url, "SELECT to_regclass('mine')::text")).toBe("mine")
    expect(await ask(second.url, "SELECT to_regclass('mine')::text")).toBeNull()

    const left = new pg.Client(first.url)
    const cut = new Promise((resolve) => left.on("error", resolve))
    await left.connect()
    await first.dispose()
    await second.dispose()
    await cut
    expect([await count(first.name), await count(second.name)]).toEqual([0, 0])
  })

  it("starts from a template", async () => {
    await using template = await freshDatabase()
    await ask(template.url, "CREATE TABLE mine AS SELECT 7 AS id")
    await using copy = await freshDatabase({ template: template.name })
    expect(await ask(copy.url, "SELECT id FROM mine")).toBe(7)
  })

  it("is dropped by `await using`", async () => {
    const name = await (async () => {
      await using database = await freshDatabase()
      expect(await count(database.name)).toBe(1)
      return database.name
    })()
    expect(await count(name)).toBe(0)
  })
})
