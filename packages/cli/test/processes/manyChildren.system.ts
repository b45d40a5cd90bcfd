import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { memoryBlobs } from "@kiln/testing"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import { expect, inject, it } from "vitest"

// The proof tier has the time for many more.
const count = inject("tier") === "proof" ? 10_000 : 3_000
const failed = count / 1_000

const frame = jobKind({
  name: "frame",
  request: Schema.Struct({ n: Schema.Number }),
  output: Schema.Struct({ double: Schema.Number }),
  run: async ({ failure, request: { n } }) => {
    if (n % 1_000 === 999) throw failure("content_rejected")
    return { output: { double: 2 * n } }
  },
})

const film = jobKind({
  name: "film",
  request: Schema.Struct({}),
  output: Schema.Struct({ done: Schema.Number, failed: Schema.Number, ordered: Schema.Boolean }),
  run: async ({ children }) => {
    const frames = await children(
      "frames",
      frame,
      Array.from({ length: count }, (_, n) => ({ n })),
    )
    const done = frames.filter(({ status }) => status === "done").length
    const ordered = frames.every((child, n) => child.status === "failed" || child.output?.double === 2 * n)
    return { output: { done, failed: frames.length - done, ordered } }
  },
})

it.each([
  ["sqlite", 1],
  ["postgres", 10],
])(`${count.toLocaleString("en")} children, on %s with %i slots`, async (store, concurrency) => {
  using directory = temporaryDirectory()
  await using database = store === "postgres" ? await freshDatabase() : null
  await using engine = await createEngine({
    store:
      database === null ? sqliteStore({ path: join(directory.path, "kiln.db") }) : postgresStore({ url: database.url }),
    blobs: memoryBlobs(),
    kinds: [film, frame],
    settings: { concurrency },
    log: false,
  })
  const job = await engine.submitAndWait("film", {}, { timeoutMs: 280_000 })
  expect(job).toMatchObject({
    status: "done",
    output: { done: count - failed, failed, ordered: true },
    attempts: expect.any(Number),
  })
  expect(await engine.operator.count()).toEqual([
    { kind: "film", mode: "sandbox", status: "done", count: 1 },
    { kind: "frame", mode: "sandbox", status: "done", count: count - failed },
    { kind: "frame", mode: "sandbox", status: "failed", count: failed },
  ])
})
