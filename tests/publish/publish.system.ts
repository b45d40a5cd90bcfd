import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join, relative } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { build } from "../../scripts/publish/build.ts"
import { pack, type PackedPackage } from "../../scripts/publish/pack.ts"
import { type Manifest, publicPackages } from "../../scripts/publish/publicPackages.ts"
import { runTool } from "../../scripts/publish/runTool.ts"
import { repository } from "../support/plantTree.ts"
import { packProgram } from "../../scripts/publish/packProgram.ts"
import { freshDatabase } from "@kiln/postgres-lab"
import { Image } from "../deploy/support/Image.ts"
import { findProgram } from "../deploy/support/Nginx.ts"
import { loadedModules } from "../counts/loadedModules.ts"
import { bundle } from "./bundle.ts"
import { declarationClosure } from "./declarationClosure.ts"
import { type Installer, InstalledProject } from "./InstalledProject.ts"
import {
  asCommonJs,
  asJavaScript,
  exportsAll,
  exportsEffects,
  importDoors,
  nameDoors,
  readmeExample,
  requireDoors,
} from "./programs.ts"
import { serveFromTarball, speakOnce } from "./ProgramAlone.ts"
import { serveOnce } from "./serveOnce.ts"

// One file, since its parts share one build, which no other test needs.
const packages = publicPackages()
const doors = packages.flatMap(({ manifest }) =>
  Object.keys(manifest.exports).map((door) => manifest.name + door.slice(1)),
)
/** What runs within vitest needs it installed, and only makes sense there. */
const withoutVitest = doors.filter((door) => !/^@kiln\/(conformance|testing\/vitest)$/.test(door))
/** What a program can import and finds values in: the door of `@kiln/cli` has a type only. */
const withValues = withoutVitest.filter((door) => door !== "@kiln/cli")
const left = new DisposableStack()
const forgotten = ["forgotten.js", "forgotten.d.ts"]
let packed: ReadonlyArray<PackedPackage>
let projects: Readonly<Record<Installer, InstalledProject>>

beforeAll(async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-tarballs-"))
  left.defer(() => rmSync(directory, { recursive: true }))
  const dist = join(repository, "packages/media-probe/dist")
  mkdirSync(dist, { recursive: true })
  // As a file whose source was removed since it was built.
  for (const file of forgotten) writeFileSync(join(dist, file), "export {}\n")
  await build()
  packed = pack(directory)
  const installedBy = (installer: Installer): InstalledProject => left.use(new InstalledProject(installer, packed))
  projects = { npm: installedBy("npm"), pnpm: installedBy("pnpm") }
})
afterAll(() => left.dispose())

describe("a tarball", () => {
  const inTarball = (tarball: string, ...args: ReadonlyArray<string>): string =>
    runTool("tar", [...args, tarball]).output
  const manifestIn = (tarball: string): Manifest =>
    JSON.parse(runTool("tar", ["-xzOf", tarball, "package/package.json"]).output)

  it.each(packages.map(({ manifest }) => manifest.name))("of %s contains the build and the README", (name) => {
    const tarball = packed.find(({ manifest }) => manifest.name === name)?.tarball ?? ""
    const files = inTarball(tarball, "-tzf").trim().split("\n")
    expect(files).toEqual(expect.arrayContaining(["package/LICENSE", "package/README.md", "package/dist/index.js"]))
    expect(
      files.filter((file) => !/^package\/(LICENSE|README\.md|package\.json|(dist|bin|assets)\/.+)$/.test(file)),
    ).toEqual([])
    expect(files.filter((file) => /(?<!\.d)\.ts$|\.tsbuildinfo$|\.test\.|\.map$|forgotten/.test(file))).toEqual([])
  })

  it.each(["@kiln/adapter-postgres", "@kiln/adapter-sqlite"])("of %s contains the license of Kysely", (name) => {
    const tarball = packed.find(({ manifest }) => manifest.name === name)?.tarball ?? ""
    expect(runTool("tar", ["-xzOf", tarball, "package/dist/LICENSES.txt"]).output).toMatch(
      /^kysely \d[\d.]+ \(MIT\)\n\n\S/,
    )
  })

  it.each(packages.map(({ manifest }) => manifest.name))("of %s does not mention the workspace", (name) => {
    const manifest = manifestIn(packed.find((one) => one.manifest.name === name)?.tarball ?? "")
    const text = JSON.stringify(manifest)
    expect(text).not.toMatch(/workspace:|catalog:|@kiln\/source/)
    const own = Object.entries({ ...manifest.dependencies, ...manifest.peerDependencies }).filter(([to]) =>
      to.startsWith("@kiln/"),
    )
    expect(own.filter(([to]) => !packages.some((one) => one.manifest.name === to))).toEqual([])
    expect(own.filter(([, range]) => range !== `^${manifest.version}`)).toEqual([])
  })
})

describe.each(["npm", "pnpm"] as const)("an empty project with the packages installed by %s", (installer) => {
  const { code, output } = readmeExample()
  let project: InstalledProject
  beforeAll(() => {
    project = projects[installer]
  })

  it("runs the example of the README in TypeScript", () => {
    expect(project.node("main.ts", code)).toEqual({ status: 0, output: `${output}\n` })
  })

  it("runs it in JavaScript", () => {
    expect(project.node("main.mjs", asJavaScript(code))).toEqual({ status: 0, output: `${output}\n` })
  })

  it("runs it in CommonJS", () => {
    expect(project.node("main.cjs", asCommonJs(code))).toEqual({ status: 0, output: `${output}\n` })
  })

  describe("compiles", () => {
    let messages: ReadonlyArray<string>
    beforeAll(() => {
      project.write("main.ts", code)
      project.write("wrong.ts", `${code}\nawait engine.submit("speech_synthesis", { input: 1 })\n`)
      project.write("doors.ts", nameDoors(withoutVitest))
      project.write("exports.ts", installer === "npm" ? `${exportsAll}${exportsEffects}` : exportsAll)
      messages = project.compile("main.ts", "wrong.ts", "doors.ts", "exports.ts").filter((line) => !isOfOthers(line))
    })
    const inWrong = (line: string): boolean => line.startsWith("wrong.ts(")

    it("the example, a module that exports what it makes, and the declarations of every entry point without errors", () => {
      expect(messages.filter((line) => !inWrong(line))).toEqual([])
    })

    it("with an error where a number stands for text", () => {
      expect(messages.filter(inWrong)).toEqual([expect.stringMatching(/^wrong\.ts\(\d+,\d+\): error TS/)])
    })
  })

  it("loads every entry point", () => {
    const tried = { status: 0, output: `${withValues.length} tried\n` }
    expect(project.node("doors.mjs", importDoors(withValues))).toEqual(tried)
    expect(project.node("doors.cjs", requireDoors(withValues))).toEqual(tried)
  })

  it("has no other entry points", () => {
    const inside = packages.map(({ manifest }) => `${manifest.name}/dist/index.js`)
    const { output: said } = project.node("inside.mjs", importDoors(inside))
    expect(said.match(/ERR_PACKAGE_PATH_NOT_EXPORTED/g)).toHaveLength(inside.length)
  })

  it("has one copy of Effect and of each package", () => {
    const names = ["effect", ...packages.map(({ manifest }) => manifest.name)]
    expect(names.filter((name) => project.copies(name) !== 1)).toEqual([])
  })

  it("serves", async () => {
    expect(await serveOnce(project, "/healthz")).toMatchObject({ status: 200, exitCode: 0 })
  })

  it("answers --version and help from the launcher", () => {
    for (const line of ["--version", "--help", "help key create", "queue --help"]) {
      const { urls } = loadedBy(project, line.split(" "))
      expect(urls.map((url) => url.replace(/^.*\/@kiln\/cli\//, ""))).toEqual(["bin/kiln.mjs", "bin/requireNode.mjs"])
    }
  })

  it.each(budgets)("starts kiln $line from at most $files files with $kilobytes kB, which include Effect", (budget) => {
    const { kilobytes, urls } = loadedBy(project, budget.line.split(" "))
    expect(urls.length).toBeLessThanOrEqual(budget.files)
    expect(kilobytes).toBeLessThanOrEqual(budget.kilobytes)
    expect(urls.filter((url) => /\/node_modules\/(effect|kysely|pg)\//.test(url))).toEqual([])
  })

  it.each([
    { name: "@kiln/core", own: 26, code: `await import("@kiln/core/effect")` },
    { name: "@kiln/adapter-postgres", own: 1, code: `await import("@kiln/adapter-postgres")` },
    { name: "@kiln/adapter-sqlite", own: 1, code: `await import("@kiln/adapter-sqlite")` },
  ])("loads $name from at most $own files, and Kysely from none", ({ code: program, name, own }) => {
    const args = ["--input-type=module", "--eval", program]
    const urls = loadedModules(args, { cwd: project.root, env: project.environment }).map(({ url }) => url)
    expect(urls.filter((url) => url.includes(`/${name}/dist/`)).length).toBeGreaterThan(0)
    expect(urls.filter((url) => url.includes(`/${name}/dist/`)).length).toBeLessThanOrEqual(own)
    expect(urls.filter((url) => url.includes("/kysely/"))).toEqual([])
  })

  it("loads what keeps jobs from a few files", () => {
    const code = ["core", "adapter-sqlite", "adapter-blobs"].map((name) => `import "@kiln/${name}"`).join("\n")
    const args = ["--input-type=module", "--eval", code]
    const loaded = loadedModules(args, { cwd: project.root, env: project.environment })
    expect(loaded.length).toBeLessThanOrEqual(160)
    expect(loaded.reduce((sum, { bytes }) => sum + bytes, 0) / 1_000).toBeLessThanOrEqual(3_500)
  })

  it("starts it with the project's Effect if a configuration may use that", async () => {
    project.write(
      "kiln.config.mjs",
      `import { effectProvider } from "@kiln/core/providers"
      export default { providers: { reply: effectProvider("reply", () => { throw new Error("not called") }) } }`,
    )
    const settings = { KILN_CONFIG: join(project.root, "kiln.config.mjs") }
    const { urls } = loadedBy(project, ["key", "list", "--init"], settings)
    expect(urls.some((url) => url.endsWith("/effect/dist/Effect.js"))).toBe(true)
    expect(await serveOnce(project, "/healthz", settings)).toMatchObject({ status: 200, exitCode: 0 })
  })
})

describe("the package kiln, which has the program with everything in it", () => {
  let tarball = ""
  beforeAll(async () => {
    const directory = left.adopt(mkdtempSync(join(tmpdir(), "kiln-program-")), (path) =>
      rmSync(path, { recursive: true }),
    )
    tarball = await packProgram(directory)
  })

  it("serves from its tarball alone, in an empty directory, with SQLite", async () => {
    const ran = await serveFromTarball(tarball)
    expect(ran.status, ran.stderr).toBe("done")
    expect(ran.audioBytes).toBeGreaterThan(1_000)
  })

  it("serves with Postgres, whose driver it contains", async () => {
    const database = await freshDatabase()
    try {
      const ran = await serveFromTarball(tarball, { DATABASE_URL: database.url, KILN_BLOBS: "postgres" })
      expect(ran.status, ran.stderr).toBe("done")
      expect(ran.audioBytes).toBeGreaterThan(1_000)
    } finally {
      await database.dispose()
    }
  })

  it("needs two packages, which it loads from where they are installed", () => {
    const manifest: Manifest = JSON.parse(runTool("tar", ["-xzOf", tarball, "package/package.json"]).output)
    expect(Object.keys(manifest.dependencies ?? {})).toEqual(["better-sqlite3", "undici"])
    expect(JSON.stringify(manifest)).not.toMatch(/workspace:|catalog:/)
  })

  it("runs in an image of its own: read-only, without privileges and without a shell", async ({ skip }) => {
    const missing = ["umoci", "runc"].filter((name) => findProgram(name) === undefined)
    if (missing.length > 0) return skip(`not installed: ${missing.join(" and ")}`)
    using image = new Image(tarball)
    expect(image.user).toMatchObject({ uid: 65_532, gid: 65_532 })
    expect(image.programs).toEqual(["/usr/local/bin/kiln", "/usr/local/bin/node"])
    console.info(
      `image: ${Math.round(image.packedBytes / 1e6)} MB packed, ${Math.round(image.unpackedBytes / 1e6)} MB unpacked`,
    )
    expect(image.unpackedBytes).toBeLessThan(MOST_BYTES_OF_THE_IMAGE)
    const { obstacle } = image
    if (obstacle !== undefined) return skip(`runc can start no container here: ${obstacle}`)
    const { exitCode, worked } = await image.serve(async ({ exec, key, url }) => ({
      ...(await speakOnce(url, key)),
      keys: exec("kiln", "key", "list"),
      write: exec(
        "node",
        "-e",
        "try { fs.writeFileSync('/x', '') } catch ({ code }) { console.log(code, process.getuid()) }",
      ),
    }))
    expect(worked).toMatchObject({ status: "done", keys: { status: 0 }, write: { output: "EROFS 65532\n" } })
    expect(exitCode).toBe(0)
  })
})

/** Node alone has 100 MB of them. */
const MOST_BYTES_OF_THE_IMAGE = 130e6

/**
 * Limits of what a command loads, somewhat above what it does: loading a file takes a third of a millisecond, and a megabyte 15 ms. Those
 * of `serve` are what a command loads that runs a part of it.
 */
const budgets = [
  { line: "key list --init", files: 30, kilobytes: 1_900 },
  { line: "job list --init", files: 30, kilobytes: 1_900 },
  { line: "doctor --only settings", files: 62, kilobytes: 3_800 },
] as const

/** The modules that a command loads: their addresses, and the length of their code. */
const loadedBy = (
  project: InstalledProject,
  args: ReadonlyArray<string>,
  settings: Readonly<Record<string, string>> = {},
) => {
  const launcher = join(project.root, "node_modules/@kiln/cli/bin/kiln.mjs")
  const env = { ...project.environment, KILN_DATA_DIR: join(project.root, "data"), ...settings }
  const loaded = loadedModules([launcher, ...args], { cwd: project.root, env }).filter(({ url }) =>
    url.startsWith("file:"),
  )
  return { urls: loaded.map(({ url }) => url), kilobytes: loaded.reduce((sum, { bytes }) => sum + bytes, 0) / 1_000 }
}

describe("manifests", () => {
  it("depend on no package of ours whose peers a program may have in another version", () => {
    const peersOf = new Map(
      packages.map(({ manifest }) => [
        manifest.name,
        // An optional one is installed by programs that use it.
        Object.keys(manifest.peerDependencies ?? {}).filter(
          (peer) => peer !== "effect" && manifest.peerDependenciesMeta?.[peer]?.optional !== true,
        ),
      ]),
    )
    const found = packages.flatMap(({ manifest }) =>
      Object.keys(manifest.dependencies ?? {})
        .filter((to) => (peersOf.get(to)?.length ?? 0) > 0)
        .map((to) => `${manifest.name} > ${to}`),
    )
    expect(found).toEqual([])
    expect(peersOf.get("@kiln/adapter-sqlite")).toEqual(["better-sqlite3"])
  })
})

describe("npm", () => {
  /** The lockfile npm writes for a project with this manifest, within two minutes. Nothing is installed. */
  const lockOf = (node: string, manifest: object): Readonly<Record<string, { readonly version?: string }>> => {
    const root = left.adopt(mkdtempSync(join(tmpdir(), "kiln-resolved-")), (path) => rmSync(path, { recursive: true }))
    writeFileSync(join(root, "package.json"), JSON.stringify({ private: true, ...manifest }))
    const flags = ["--package-lock-only", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]
    const { output, status } = runTool(node, [npm, "install", ...flags], { cwd: root })
    expect(status, output.slice(-2_000)).toBe(0)
    return JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages
  }
  const tarballs = () => Object.fromEntries(packed.map(({ manifest, tarball }) => [manifest.name, `file:${tarball}`]))
  /** The versions npm chooses in a project with all packages and these. */
  const resolved = (node: string, others: Readonly<Record<string, string>>) => {
    const lock = lockOf(node, { dependencies: { ...tarballs(), ...others } })
    return (path: string): string | undefined => lock[`node_modules/${path}`]?.version
  }
  /** The names of every package that npm installs with one of ours, peers included. */
  const installedWith = (name: string): ReadonlyArray<string> => {
    const overrides = tarballs()
    const lock = lockOf(process.execPath, { dependencies: { [name]: overrides[name] }, overrides })
    return Object.keys(lock).flatMap((path) => (path === "" ? [] : [path.replace(/^.*node_modules\//, "")]))
  }
  const onPath = (program: string): ReadonlyArray<string> =>
    (process.env["PATH"] ?? "")
      .split(delimiter)
      .map((directory) => join(directory, program))
      .filter((path) => existsSync(path))
  const npm = realpathSync(onPath("npm")[0] ?? "npm")

  it("puts kiln into a program with another version of Kysely, which stays the program's", () => {
    const version = resolved(process.execPath, { "better-sqlite3": "*", kysely: "<0.29", pg: "*" })
    expect(version("kysely")).toMatch(/^0\.28\./)
    for (const adapter of ["adapter-postgres", "adapter-sqlite"])
      expect(version(`@kiln/${adapter}/node_modules/kysely`)).toMatch(/^0\.29\./)
  })

  it("installs no database driver, no AI SDK and no command line with @kiln/http", () => {
    const names = installedWith("@kiln/http")
    expect(names).toEqual(expect.arrayContaining(["@kiln/client", "@kiln/core", "@kiln/http", "effect"]))
    expect(names.filter((name) => name.startsWith("@kiln/")).toSorted()).toEqual([
      "@kiln/client",
      "@kiln/core",
      "@kiln/http",
    ])
    expect(names.filter((name) => isHeavy(name))).toEqual([])
    expect(names.length).toBeLessThan(MOST_PACKAGES_OF_A_MOUNT)
    // The same question of the package that has all of them.
    expect(installedWith("@kiln/cli").filter((name) => isHeavy(name))).toEqual(
      expect.arrayContaining(["@ai-sdk/openai", "ai", "better-sqlite3", "kysely", "pg"]),
    )
  })

  it("finishes even if it prefers older drivers, which support an older Node", ({ skip }) => {
    const major = (node: string): number => Number(runTool(node, ["-p", "parseInt(process.versions.node)"]).output)
    const older = onPath("node").find((node) => major(node) >= 18 && major(node) < 22)
    if (older === undefined) return skip("no Node older than the drivers' on the PATH")
    const version = resolved(older, { "better-sqlite3": "*", kysely: "*", pg: "*" })
    expect(version("better-sqlite3")).toMatch(/^13\./)
    expect(version("@kiln/http")).toBeDefined()
  })
})

/** Database drivers, query builders, stores of files and the AI SDK: a server that mounts `/v1` chooses its own. */
const isHeavy = (name: string): boolean => /^(pg|pg-.*|better-sqlite3|kysely|unstorage|ai|@ai-sdk\/.*)$/.test(name)

/** A bound well above the count (see docs/publishing.md). */
const MOST_PACKAGES_OF_A_MOUNT = 20

/** The AI SDK names a package in its declarations that it does not install. */
const isOfOthers = (line: string): boolean => line.includes("node_modules/@ai-sdk/") || line.startsWith("  ")

describe("a bundler", () => {
  it("omits the engine and the worker if only one function of a kind is used", async () => {
    const used = await bundle(
      projects.npm,
      `import { decodeFields } from "@kiln/core/kinds"\nconsole.log(decodeFields)`,
    )
    expect(used.ownBytes).toBeGreaterThan(0)
    expect(used.ownBytes).toBeLessThan(LARGEST_KINDS_BYTES)
  })

  it("includes the engine and the worker if an engine is created, but nothing that only the Effect entry point needs", async () => {
    const used = await bundle(projects.npm, `import { createEngine } from "@kiln/core"\nconsole.log(createEngine)`)
    expect(used.ownBytes).toBeGreaterThan(2 * LARGEST_KINDS_BYTES)
    expect(used.bytes).toBeLessThan(LARGEST_ENGINE_BYTES)
  })
})

/** What defines and decodes kinds takes less; the engine takes more than twice as much. */
const LARGEST_KINDS_BYTES = 50_000

/** A limit well above the actual size (see docs/publishing.md), which an additional library would exceed. */
const LARGEST_ENGINE_BYTES = 700_000

/** The doors for code without Effect, whose declarations must make sense to someone who never heard of it. */
const plainDoors = ["@kiln/core", "@kiln/client"]

describe("the declarations of an entry point", () => {
  const entries = new Map(
    packages.flatMap(({ directory: at, manifest }) =>
      Object.entries(manifest.exports).map(([door, { types = "" }]) => [
        manifest.name + door.slice(1),
        join(repository, at, types),
      ]),
    ),
  )
  const effectImports = (door: string): Array<string> =>
    declarationClosure(entries.get(door) ?? door, (specifier) => entries.get(specifier))
      .filter(({ specifier }) => /^(effect|@effect\/[^/]+)(\/|$)/.test(specifier))
      .map(({ route, specifier }) => [...route.map((file) => relative(repository, file)), specifier].join(" > "))

  it.each(plainDoors)("do not mention Effect: %s", (door) => expect(effectImports(door)).toEqual([]))

  it("mention it in the entry points for Effect", () => {
    expect(effectImports("@kiln/core/effect")).not.toEqual([])
    // By way of another package.
    expect(effectImports("@kiln/http")).toContainEqual(expect.stringContaining(" > packages/core/dist/"))
  })
})
