import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { publicPackages, repository } from "../../scripts/publish/publicPackages.ts"
import { runTool } from "../../scripts/publish/runTool.ts"

it("the reference has a page for every entry point, with the docstrings of what it exports", () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-reference-"))
  try {
    const hook = join(repository, "scripts/typescriptWithApi.mjs")
    const script = join(repository, "scripts/publish/reference.ts")
    const { output, status } = runTool(process.execPath, ["--import", hook, script, directory])
    expect(status, output).toBe(0)
    const page = (path: string): string => readFileSync(join(directory, path), "utf8")
    for (const { manifest } of publicPackages())
      for (const path of Object.keys(manifest.exports)) {
        const name = manifest.name + path.slice(1)
        expect(page(`modules/${name.replaceAll(/[@/]/g, "_")}.html`), name).toContain(`<h1>Module ${name}`)
      }
    expect(page("functions/_kiln_core.createEngine.html")).toContain("starts its worker")
  } finally {
    rmSync(directory, { recursive: true })
  }
}, 120_000)
