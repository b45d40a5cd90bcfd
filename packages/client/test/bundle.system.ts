import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { build, type Metafile } from "esbuild"
import { describe, expect, it } from "vitest"

/** What a browser would load for this program, minified. A module of Node in it fails the build. */
const bundle = async (
  program: string,
): Promise<{ readonly gzipBytes: number; readonly inputs: Metafile["inputs"] }> => {
  const { metafile, outputFiles } = await build({
    stdin: { contents: program, resolveDir: import.meta.dirname, loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    target: "es2024",
    conditions: ["@kiln/source"],
    absWorkingDir: join(import.meta.dirname, ".."),
    logLevel: "silent",
  })
  return { gzipBytes: gzipSync(outputFiles[0]?.contents ?? "").byteLength, inputs: metafile.inputs }
}

describe("in a browser", () => {
  // The figures of docs/guides/client.md.
  it.each([
    ["the client", `import { createClient } from "@kiln/client"; globalThis.client = createClient`, 3_600],
    ["sending files alone", `import { sendUpload } from "@kiln/client"; globalThis.send = sendUpload`, 2_000],
  ])("%s is small, and nothing else is loaded", async (_, program, mostBytes) => {
    const { gzipBytes, inputs } = await bundle(program)
    expect(gzipBytes).toBeLessThan(mostBytes)
    expect(gzipBytes).toBeGreaterThan(500)
    for (const path of Object.keys(inputs)) expect(path).toMatch(/^(src\/(routes\/)?[A-Za-z]+\.ts|<stdin>)$/)
  })

  it("a module of Node would be detected", async () => {
    await expect(bundle(`import { readFile } from "node:fs"; globalThis.read = readFile`)).rejects.toThrow("node:fs")
  })
})
