import { basename, join } from "node:path"
import { gzipSync } from "node:zlib"
import { build, type Metafile } from "esbuild"
import { describe, expect, it } from "vitest"

/** What a browser loads for this program, minified: at once, when it sends a file, and when it streams. A module of Node in it fails the build. */
const bundle = async (program: string) => {
  const { metafile, outputFiles } = await build({
    stdin: { contents: program, resolveDir: import.meta.dirname, loader: "ts" },
    bundle: true,
    minify: true,
    splitting: true,
    outdir: "out",
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    target: "es2024",
    conditions: ["@kiln/source"],
    absWorkingDir: join(import.meta.dirname, ".."),
    logLevel: "silent",
  })
  const outputs: Metafile["outputs"] = metafile.outputs
  const gzipBytesOf = (isWanted: (path: string) => boolean): number =>
    outputFiles
      .filter(({ path }) => isWanted(basename(path)))
      .reduce((sum, { contents }) => sum + gzipSync(contents).byteLength, 0)
  const imports = outputs["out/stdin.js"]?.imports ?? []
  const imported = (wanted: string) =>
    new Set(imports.filter(({ kind }) => kind === wanted).map(({ path }) => basename(path)))
  const atOnce = imported("import-statement").add("stdin.js")
  const later = imported("dynamic-import")
  return {
    gzipBytes: gzipBytesOf((name) => atOnce.has(name)),
    laterBytes: gzipBytesOf((name) => later.has(name) && !isOfStreams(name)),
    streamBytes: gzipBytesOf((name) => later.has(name) && isOfStreams(name)),
    inputs: Object.keys(metafile.inputs),
  }
}

const isOfStreams = (name: string): boolean => name.startsWith("stream-")

const ours = /^(src\/((routes|audio)\/)?[A-Za-z0-9]+\.ts|\.\.\/core\/src\/media\/[A-Za-z]+\.ts|<stdin>)$/

describe("in a browser", () => {
  // The figures of docs/guides/client.md.
  it.each([
    ["the client", `import { createClient } from "@kiln/client"; globalThis.client = createClient`, 5_000, 3_150],
    ["sending files alone", `import { sendUpload } from "@kiln/client"; globalThis.send = sendUpload`, 2_190, 0],
  ])("%s is small, and nothing else is loaded", async (_, program, mostBytes, mostLaterBytes) => {
    const { gzipBytes, inputs, laterBytes, streamBytes } = await bundle(program)
    expect(gzipBytes).toBeLessThan(mostBytes)
    expect(gzipBytes).toBeGreaterThan(500)
    expect(laterBytes).toBeLessThanOrEqual(mostLaterBytes)
    expect(streamBytes).toBeLessThanOrEqual(mostLaterBytes === 0 ? 0 : 800)
    for (const path of inputs) expect(path).toMatch(ours)
  })

  it("a module of Node would be detected", async () => {
    await expect(bundle(`import { readFile } from "node:fs"; globalThis.read = readFile`)).rejects.toThrow("node:fs")
  })
})
