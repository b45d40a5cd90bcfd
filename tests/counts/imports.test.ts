import { describe, expect, it } from "vitest"
import { repository } from "../support/plantTree.ts"
import { type LoadedModule, loadedModules } from "./loadedModules.ts"

/**
 * Loading a module takes about half a millisecond, whatever is in it. Limits of what importing an entry point loads, some
 * modules above what it does: raise one only for a reason.
 */
const limits = [
  { door: "@kiln/core", modules: 100, effect: 16, kilobytes: 438 },
  { door: "@kiln/core/domain", modules: 53, effect: 0, kilobytes: 209 },
  { door: "@kiln/core/opentelemetry", modules: 6, effect: 0, kilobytes: 8 },
  { door: "@kiln/core/rules", modules: 53, effect: 0, kilobytes: 209 },
  { door: "@kiln/core/ports", modules: 189, effect: 72, kilobytes: 1_904 },
] as const

/** Returns the modules that a program loads. */
const loadedBy = (code: string): ReadonlyArray<LoadedModule> => {
  const { NODE_OPTIONS: _, ...env } = process.env
  const args = ["--conditions=@kiln/source", "--input-type=module", "--eval", code]
  return loadedModules(args, { cwd: repository, env })
}

const isEffect = ({ url }: LoadedModule): boolean => url.includes("/node_modules/effect/")
const heavy = /^node:(http2?|https|net|tls|dns)$|node_modules\/(pg|better-sqlite3|kysely|ai|@ai-sdk|undici)\//
/** What takes longest to load of Effect. */
const slowOfEffect = /effect\/dist\/(Effect|Stream|Schema|http\/\w+|net\/\w+)\.js$/

describe.each(limits)("importing $door", ({ door, effect, kilobytes, modules }) => {
  const loaded = loadedBy(`import ${JSON.stringify(door)}`)

  it("loads few modules", () => {
    const bytes = loaded.reduce((sum, module) => sum + module.bytes, 0)
    expect(loaded.length, `${loaded.length} modules`).toBeLessThanOrEqual(modules)
    expect(loaded.filter(isEffect).length).toBeLessThanOrEqual(effect)
    expect(bytes / 1_000, "kilobytes").toBeLessThanOrEqual(kilobytes)
  })

  it("loads no server, database driver or AI SDK", () => {
    expect(loaded.filter(({ url }) => heavy.test(url))).toEqual([])
  })
})

it("a program that defines job kinds and providers does not load Effect", () => {
  const loaded = loadedBy(`
    import { asyncProviders, builtIn, failure, jobKind, providerPort } from "@kiln/core"
    const request = { "~standard": { version: 1, vendor: "own", validate: (value) => ({ value }) } }
    const port = providerPort({ name: "embedding", check: (answer) => answer })
    const kind = jobKind({ name: "k", request, providers: [port], run: () => { throw failure("internal_error", { message: "d" }) } })
    if (kind.name !== "k" || builtIn.speechSynthesis().name !== "speech_synthesis") throw new Error("not a kind")
    asyncProviders({ speech: async () => ({}) })
  `)
  expect(loaded.map(({ url }) => url).filter((url) => slowOfEffect.test(url))).toEqual([])
})

it("an engine of kinds with other schemas does not load Effect Schema, wherever it keeps jobs and blobs", () => {
  const opened = loadedBy(`
    import { createEngine, jobKind } from "@kiln/core"
    import { fileBlobs } from "@kiln/adapter-blobs"
    import { postgresStore } from "@kiln/adapter-postgres"
    import { sqliteStore } from "@kiln/adapter-sqlite"
    import { mkdtempSync, rmSync } from "node:fs"
    import { tmpdir } from "node:os"
    const directory = mkdtempSync(tmpdir() + "/kiln-imports-")
    const request = { "~standard": { version: 1, vendor: "own", validate: (value) => ({ value }) } }
    const echo = jobKind({ name: "echo", request, run: async ({ request }) => ({ output: request }) })
    const store = sqliteStore({ path: directory + "/jobs.db" })
    const engine = await createEngine({ store, blobs: fileBlobs({ directory: directory + "/blobs" }), kinds: [echo] })
    const { output } = await engine.submitAndWait("echo", { said: "hello" })
    if (output.said !== "hello") throw new Error("not run")
    await engine.stop()
    rmSync(directory, { recursive: true })
  `).map(({ url }) => url)
  expect(opened.filter((url) => /adapter-(blobs|postgres|sqlite)\/src\/index/.test(url))).toHaveLength(3)
  expect(opened.some((url) => url.endsWith("effect/dist/Effect.js"))).toBe(true)
  expect(opened.filter((url) => /effect\/dist\/(Schema|http\/\w+|net\/\w+)\.js$/.test(url))).toEqual([])
})

it("the entry point for adapters does not load Effect Schema", () => {
  const loaded = loadedBy(`import "@kiln/core/ports"`).map(({ url }) => url)
  expect(loaded.filter((url) => /effect\/dist\/Schema/.test(url))).toEqual([])
  // The same question of the entry point that has the built-in kinds.
  expect(loadedBy(`import "@kiln/core/kinds"`).some(({ url }) => url.endsWith("effect/dist/Schema.js"))).toBe(true)
})

it.each(["@kiln/adapter-postgres", "@kiln/adapter-sqlite"])(
  "importing %s builds and compiles no statement",
  (adapter) => {
    // Compiling all of them takes a fifth of the time of the import, and a process runs a few.
    const loaded = loadedBy(`
    import { DefaultQueryCompiler } from "kysely"
    let compiled = 0
    const { compileQuery } = DefaultQueryCompiler.prototype
    DefaultQueryCompiler.prototype.compileQuery = function (...args) {
      compiled += 1
      return compileQuery.apply(this, args)
    }
    await import(${JSON.stringify(adapter)})
    if (compiled > 0) throw new Error(compiled + " statements were compiled")
  `)
    expect(loaded.some(({ url }) => url.includes("/kysely/"))).toBe(true)
  },
)
