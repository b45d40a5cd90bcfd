import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { builtInKinds, createEngine } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobDirectory } from "@kiln/core/ports"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { memoryBlobs } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"

const program = join(import.meta.dirname, "support/moveSchedules.ts")
const schedules = 30

const start = async (place: string): Promise<ChildProcess> => {
  const child = spawn(process.execPath, ["--conditions=@kiln/source", program, place, String(schedules)], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  await once(child.stdout, "data")
  return child
}

/** The idempotency keys of all jobs: a tick and the name of its schedule. */
const allKeys = Effect.gen(function* () {
  const directory = yield* JobDirectory
  const keys: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* directory.listJobs({ limit: 1_000, ...(after !== undefined && { after }) })
    for (const job of yield* directory.readJobs(page.jobs.map(({ id }) => id)))
      if (job !== undefined) keys.push(job.idempotencyKey)
    after = page.next
  } while (after !== undefined)
  return keys
})

it.each(["sqlite", "postgres"])(
  "schedules that two processes fire until they are killed, and move from project to project: one job a tick, on %s",
  async (store) => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const place = database?.url ?? join(directory.path, "kiln.db")
    // One after the other, so that they do not migrate at the same time.
    const processes = [await start(place), await start(place)]
    for (const process of processes) {
      await pause(3_000)
      process.kill("SIGKILL")
      await once(process, "exit")
    }

    const adapter = database === null ? sqliteStore({ path: place }) : postgresStore({ url: place })
    await using engine = await createEngine({
      store: adapter,
      blobs: memoryBlobs(),
      kinds: builtInKinds(),
      worker: false,
      log: false,
    })
    const keys = await Effect.runPromiseWith(embeddedContext(engine))(allKeys)
    const jobs = Map.groupBy(keys, (key) => key)
    expect([...jobs.values()].filter((ofTick) => ofTick.length > 1).map(([key]) => key)).toEqual([])
    expect(new Set(keys.map((key) => key.split(" ").at(-1))).size).toBe(schedules)
    expect(keys.length).toBeGreaterThan(schedules)
  },
  120_000,
)
