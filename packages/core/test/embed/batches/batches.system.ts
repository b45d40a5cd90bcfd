import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { freshDatabase } from "@kiln/postgres-lab"
import { expect, it } from "vitest"

const run = async (place: string): Promise<string> => {
  const program = spawn(
    process.execPath,
    ["--conditions=@kiln/source", join(import.meta.dirname, "program.ts"), place],
    { stdio: ["ignore", "pipe", "inherit"] },
  )
  return text(program.stdout)
}

const sqlite = () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-batches-"))
  return {
    place: join(directory, "jobs.db"),
    [Symbol.asyncDispose]: async () => rmSync(directory, { recursive: true, force: true }),
  }
}

const postgres = async () => {
  const database = await freshDatabase()
  return { place: database.url, [Symbol.asyncDispose]: () => database.dispose() }
}

it.each([
  ["SQLite", sqlite],
  ["Postgres", postgres],
])(
  "a job that kills its process in a batch fails alone, and the others of its batch are done (%s)",
  async (_, open) => {
    await using opened = await open()
    const calls: Array<string> = []
    for (let starts = 0; starts < 10; starts++) {
      const lines = (await run(opened.place)).trimEnd().split("\n")
      const end = lines.at(-1)
      const isOver = end?.includes("attempts_exhausted") === true
      calls.push(...(isOver ? lines.slice(0, -1) : lines))
      if (!isOver) continue
      // The first two calls had the whole batch. Then each job was alone.
      expect(calls.slice(0, 2).map((call) => call.split(",").length)).toEqual([4, 4])
      expect(calls.slice(2).toSorted()).toEqual(["a", "b", "c", "kill"])
      return expect(end).toMatch(/^done \d+, attempts_exhausted, done \d+, done \d+$/)
    }
    expect.unreachable(`the jobs did not end: ${calls.join(" | ")}`)
  },
)
