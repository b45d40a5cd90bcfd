import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, type StoreAdapter } from "@kiln/core"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"

const program = join(import.meta.dirname, "support/submitOnce.ts")
const limitMs = 60_000

/** Runs the program to its own end, and returns what it printed. A process that does not end by itself is killed, which rejects. */
const runs = async (place: string, what: string): Promise<string> => {
  const given = ["--conditions=@kiln/source", program, place, what]
  const { stdout } = await promisify(execFile)(process.execPath, given, { timeout: limitMs, killSignal: "SIGKILL" })
  return stdout.trim()
}

const opened = async (name: string) => {
  const directory = temporaryDirectory()
  const database = name === "Postgres" ? await freshDatabase() : undefined
  const place = name === "memory" ? "memory" : (database?.url ?? join(directory.path, "kiln.db"))
  return {
    place,
    [Symbol.asyncDispose]: async () => {
      await database?.dispose()
      directory[Symbol.dispose]()
    },
  }
}

const storeAt = (place: string): StoreAdapter =>
  place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })

it.each(["memory", "SQLite", "Postgres"])(
  "a process that only submits ends by itself, and its job is durable (%s)",
  async (name) => {
    await using store = await opened(name)
    const id = await runs(store.place, "submit")
    expect(id).toMatch(/^job_/)
    if (name === "memory") return
    await using engine = await createEngine({ store: storeAt(store.place), kinds: [], worker: false })
    expect((await engine.operator.list()).jobs).toMatchObject([{ id, status: "queued" }])
  },
)

it.each(["memory", "SQLite", "Postgres"])(
  "while a call waits, the process goes on, and then ends (%s)",
  async (name) => {
    await using store = await opened(name)
    expect(await runs(store.place, "wait")).toBe("WaitTimeout")
    expect(await runs(store.place, "events")).toBe("queued")
    expect(await runs(store.place, "stop")).toBe("stopped")
  },
)
