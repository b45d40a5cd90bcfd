import { execFile } from "node:child_process"
import { mkdtempSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { freshDatabase } from "@kiln/postgres-lab"
import { it } from "vitest"
it("x", async () => {
  for (const n of [1, 2]) {
    await using database = await freshDatabase()
    const args = ["--conditions=@kiln/source", join(import.meta.dirname, "main.ts"), database.url, mkdtempSync("/tmp/wa-")]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    console.log(n, stdout)
  }
})
