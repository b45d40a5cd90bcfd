import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { freshDatabase } from "@kiln/postgres-lab"
import { expect, it } from "vitest"

/** Runs a program of this directory and returns its output. */
const printed = async (program: string, ...args: ReadonlyArray<string>): Promise<string> => {
  const path = join(import.meta.dirname, program)
  const { stderr, stdout } = await promisify(execFile)(process.execPath, ["--conditions=@kiln/source", path, ...args])
  expect(stderr).toBe("")
  return stdout
}

interface Place extends AsyncDisposable {
  readonly name: string
}

const places: Readonly<Record<string, () => Promise<Place>>> = {
  memory: async () => ({ name: "memory", [Symbol.asyncDispose]: async () => {} }),
  SQLite: async () => {
    const name = mkdtempSync(join(tmpdir(), "kiln-custom-kind-"))
    return { name, [Symbol.asyncDispose]: async () => rmSync(name, { recursive: true }) }
  },
  Postgres: async () => {
    const database = await freshDatabase()
    return { name: database.url, [Symbol.asyncDispose]: database.dispose }
  },
}

const ways: ReadonlyArray<{ readonly way: string; readonly flags: ReadonlyArray<string> }> = [
  { way: "in promises", flags: [] },
  { way: "with Effect", flags: ["--effect"] },
]

// Each store and each way: what a way does is the same on every store.
it.each(Object.keys(places).map((store, n) => ({ store, ...ways[n % ways.length]! })))(
  "a custom kind, $way, works on $store: its step is not repeated, it is charged, and it keeps its fields",
  async ({ flags, store }) => {
    await using place = await places[store]!()
    expect(await printed("main.ts", place.name, ...flags)).toBe(`summarizing
rendering, time 1
rendering, time 2
5 words: Kilns are ovens for clay.
text/html: <p>Kilns are ovens for clay.</p>
2 attempts, charged 0.014 usd
data_deleted, metadata: {"documentId":"doc-7"}
`)
  },
)

it("and over HTTP, if the program mounts it", async () => {
  const lines = (await printed("http.ts")).replace(/127\.0\.0\.1:\d+/, "127.0.0.1:PORT")
  expect(lines).toBe(`202 http://127.0.0.1:PORT/api/v1/summaries/job_…
done 9 Kilns are ovens for clay. The hot air rises.
<p>Kilns are ovens for clay. The hot air rises.</p>
401
`)
})
