import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { freshDatabase } from "@kiln/postgres-lab"
import { expect, it } from "vitest"

/** Runs the example. Returns its output, and how long its workers took to start, in milliseconds. */
const run = async (driver: string, place: string) => {
  const args = ["--conditions=@kiln/source", join(import.meta.dirname, "main.ts"), driver, place]
  const { stderr, stdout } = await promisify(execFile)(process.execPath, args)
  expect(stderr).toBe("")
  const [delayMs, usualMs] = Array.from(stdout.matchAll(/(\d+\.\d) ms/g), ([, figure]) => Number(figure))
  return { lines: stdout.replaceAll(/\d+\.\d ms/g, "N ms"), delayMs, boundMs: boundOf(usualMs ?? 0) }
}

/** The limit for a start: twenty times a 1 ms timer plus a query, so that a busy machine gets more time. */
const boundOf = (usualMs: number): number => Math.max(50, 20 * usualMs)

const lines = `an order that is rolled back
  Error: the card was declined
  0 orders, 0 jobs
nine orders that are committed
  9 orders, 9 jobs
  in the middle, a worker began N ms after the commit; a timer and a query took N ms
`

it.each(["pg", "kysely"])(
  "with %s, order and job are stored together or not at all, and a worker is notified immediately",
  async (driver) => {
    await using database = await freshDatabase()
    const said = await run(driver, database.url)
    expect(said.lines).toBe(lines)
    expect(said.delayMs).toBeLessThan(said.boundMs)
  },
)

it("with better-sqlite3, synchronously too", async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-transactional-"))
  try {
    const said = await run("better-sqlite3", directory)
    expect(said.lines).toBe(lines)
    expect(said.delayMs).toBeLessThan(said.boundMs)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
