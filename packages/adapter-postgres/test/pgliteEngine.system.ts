import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PGlite } from "@electric-sql/pglite"
import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { afterAll, beforeAll, expect, it } from "vitest"
import { z } from "zod"
import { postgresStore } from "../src/index.ts"

const directory = mkdtempSync(join(tmpdir(), "kiln-pglite-"))
let pglite: PGlite
beforeAll(async () => {
  pglite = await PGlite.create(directory)
})
afterAll(async () => {
  await pglite.close()
  rmSync(directory, { recursive: true })
})

const kind = jobKind({
  name: "greeting",
  request: z.object({ name: z.string() }),
  output: z.object({ text: z.string() }),
  run: async ({ request }) => ({ output: { text: `hello ${request.name}` } }),
})

const open = () => createEngine({ store: postgresStore({ pglite }), blobs: memoryBlobs(), kinds: [kind], log: false })

it("an engine runs jobs of callers and of their transactions, and finds them after it was opened again", async () => {
  await pglite.exec("CREATE TABLE orders (id text)")
  const ids: Array<string> = []
  {
    await using engine = await open()
    const { id } = await engine.submit("greeting", { name: "Ada" })
    expect(await engine.wait(id)).toMatchObject({ status: "done", output: { text: "hello Ada" } })
    ids.push(id)
    for (const fate of ["committed", "rolled back", "committed"])
      await pglite.transaction(async (tx) => {
        await tx.query("INSERT INTO orders VALUES ($1)", [fate])
        const job = await engine.submit("greeting", { name: fate }, { transaction: tx })
        if (fate === "committed") return void ids.push(job.id)
        return tx.rollback()
      })
    for (const job of ids.slice(1))
      expect(await engine.wait(job)).toMatchObject({ output: { text: "hello committed" } })
    // Statements of the program wait for kiln's transactions, and are not part of them.
    const together = await Promise.all([
      ...Array.from({ length: 20 }, (_, n) => engine.submit("greeting", { name: String(n) })),
      ...Array.from({ length: 20 }, () => pglite.query("INSERT INTO orders VALUES ('beside')")),
    ])
    expect(together).toHaveLength(40)
  }
  const { rows } = await pglite.query("SELECT id, count(*)::int AS orders FROM orders GROUP BY 1 ORDER BY 1")
  expect(rows).toEqual([
    { id: "beside", orders: 20 },
    { id: "committed", orders: 2 },
  ])
  await using again = await open()
  expect(await again.get(ids[0] ?? "")).toMatchObject({ status: "done" })
  expect((await again.operator.count()).reduce((sum, { count }) => sum + count, 0)).toBe(23)
})

it("a transaction of the program that does not end makes kiln's steps fail with the reason", async () => {
  await using engine = await createEngine({
    store: postgresStore({ pglite, connectTimeoutMs: 100, reconnectForMs: 0 }),
    blobs: memoryBlobs(),
    kinds: [kind],
    worker: false,
    log: false,
  })
  await pglite.transaction(async () => {
    const error = await engine.submit("greeting", { name: "x" }).catch((failure: unknown) => failure)
    expect(String(error instanceof Error ? (error.cause ?? error) : error)).toMatch(/unavailable|PGlite was in use/)
  })
  await engine.submit("greeting", { name: "y" })
})

it.each([
  [{ pglite: {} }, "a PGlite of @electric-sql/pglite"],
  [{ pglite: { execProtocolRaw: () => ({}) }, url: "postgres://127.0.0.1/app" }, "pass either pglite or url"],
  [{ pglite: { execProtocolRaw: () => ({}) }, notifications: "send" }, "no other process can listen to PGlite"],
])("%# is refused", (options, words) => {
  expect(() => postgresStore(options as never)).toThrow(words)
})
