import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, type JobChunk } from "@kiln/core"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { tokens } from "./support/tokens.ts"

const program = join(import.meta.dirname, "support/tokenWorker.ts")

const startWorker = async (place: string) => {
  const given = ["--conditions=@kiln/source", program, place]
  const worker = spawn(process.execPath, given, { stdio: ["ignore", "pipe", "inherit"] })
  await once(worker.stdout, "data")
  return worker
}

const opened = async (name: string) => {
  const directory = temporaryDirectory()
  const database = name === "Postgres" ? await freshDatabase() : undefined
  const place = database?.url ?? join(directory.path, "kiln.db")
  const store = database === undefined ? sqliteStore({ path: place }) : postgresStore({ url: place })
  return {
    place,
    store,
    [Symbol.asyncDispose]: async () => {
      await database?.dispose()
      directory[Symbol.dispose]()
    },
  }
}

type Token = JobChunk<{ readonly token: string }>

it.each(["SQLite", "Postgres"])(
  "a reader gets each token once, in order, although the worker is killed in the middle (%s)",
  async (name) => {
    await using place = await opened(name)
    await using engine = await createEngine({ store: place.store, kinds: [tokens], worker: false })
    const count = 24
    const job = await engine.submit("tokens", { count })
    const first = await startWorker(place.place)
    let second: ReturnType<typeof startWorker> | undefined
    const seen: Array<Token> = []
    // It leaves the stream and comes back: the rest begins after the last index that it has.
    for await (const chunk of engine.stream(job)) {
      seen.push(chunk)
      if (chunk.index === 5) break
    }
    for await (const chunk of engine.stream(job, { from: 6 })) {
      seen.push(chunk)
      if (chunk.index !== 14) continue
      first.kill("SIGKILL")
      second = startWorker(place.place)
    }
    const other: Array<Token> = []
    for await (const chunk of engine.stream(job.id, { from: 0 })) other.push(chunk)
    ;(await second)?.kill("SIGKILL")
    expect(seen.map(({ index }) => index)).toEqual(Array.from({ length: count }, (_, index) => index))
    expect(seen.map(({ value }) => value.token)).toEqual(Array.from({ length: count }, (_, n) => `t${n}`))
    expect([seen[0]?.attempt, seen.at(-1)?.attempt]).toEqual([1, 2])
    expect(other).toEqual(seen)
    expect(await engine.get(job)).toMatchObject({ status: "done", output: { attempts: 2 } })
  },
  60_000,
)
