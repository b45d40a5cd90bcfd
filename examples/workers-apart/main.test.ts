import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { freshDatabase } from "@kiln/postgres-lab"
import { expect, it } from "vitest"

it("every job is done once, whichever worker is killed, and the store notifies waiting callers", async () => {
  await using database = await freshDatabase()
  const directory = mkdtempSync(join(tmpdir(), "kiln-workers-apart-"))
  try {
    const args = ["--conditions=@kiln/source", join(import.meta.dirname, "main.ts"), database.url, directory]
    const { stderr, stdout } = await promisify(execFile)(process.execPath, args)
    expect(stderr).toBe("")
    expect(stdout.replace(/\d+ ms/, "N ms")).toBe(`5 jobs are queued, and nobody works
two workers have begun a job each; one is killed with kill -9
5 jobs are done, 5 of them by the worker that was left
1 was taken over
page 1
page 2
page 3
page 4
page 5
of each, this process heard within N ms after its end
the other worker stopped with 0
`)
    // By polling alone, it would learn of some jobs more than a second after they finished.
    expect(Number(/(\d+) ms/.exec(stdout)?.[1])).toBeLessThan(1_000)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
