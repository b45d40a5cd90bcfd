import { createHash } from "node:crypto"
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { mkdir, readFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { join, relative, sep } from "node:path"
import { pathToFileURL } from "node:url"
import { build as bundle, type Plugin } from "esbuild"

const repository = join(import.meta.dirname, "../../..")
const packageRoot = join(repository, "packages/cli")
const cache = join(repository, "node_modules/.cache/kiln-test")

/** The sources of every package, and the configuration files that tests give to processes. */
const sourceFiles = (): ReadonlyArray<string> =>
  globSync(["packages/*/src/**/*.ts", "packages/*/test/**/fixtures/*.ts", "packages/*/bin/*", "pnpm-lock.yaml"], {
    cwd: repository,
  }).toSorted()

const hashOf = (files: ReadonlyArray<string>): string => {
  const hash = createHash("sha256").update(readFileSync(import.meta.filename))
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(join(repository, file)))
  return hash.digest("hex").slice(0, 16)
}

/** Assets and manifests are found beside the sources, as if these had been loaded one by one. */
const keepLocations: Plugin = {
  name: "keep-locations",
  setup: (build) => {
    build.onLoad({ filter: /\/packages\/[^/]+\/(src|test)\/.*\.ts$/ }, async ({ path }) => ({
      loader: "ts",
      contents: (await readFile(path, "utf8")).replaceAll(
        /import\.meta\.url\b/g,
        JSON.stringify(pathToFileURL(path).href),
      ),
    }))
  },
}

/** It finds its binary beside itself. */
const native = "better-sqlite3"
const resolveNative: Plugin = {
  name: "resolve-native",
  setup: (build) => {
    build.onResolve({ filter: new RegExp(`^${native}$`) }, ({ importer }) => ({
      path: createRequire(importer).resolve(native),
      external: true,
    }))
  },
}

const buildInto = async (directory: string, files: ReadonlyArray<string>): Promise<void> => {
  const configs = files.filter((file) => file.endsWith(".config.ts"))
  await bundle({
    absWorkingDir: repository,
    entryPoints: {
      "dist/main": join(packageRoot, "src/main.ts"),
      ...Object.fromEntries(configs.map((file) => [file.replace(/\.ts$/, ""), join(repository, file)])),
    },
    outdir: directory,
    bundle: true,
    // What a command does not import at once is loaded when it is needed, as from sources; configurations share it.
    splitting: true,
    format: "esm",
    platform: "node",
    target: `node${process.versions.node.split(".")[0]}`,
    conditions: ["@kiln/source"],
    external: ["pg-native"],
    banner: {
      js: `import { createRequire as r } from "node:module"; const require = r(${JSON.stringify(import.meta.url)})`,
    },
    plugins: [keepLocations, resolveNative],
    logLevel: "error",
  })
  cpSync(join(packageRoot, "bin"), join(directory, "bin"), { recursive: true })
  writeFileSync(join(directory, "package.json"), `{"type":"module"}\n`)
}

const prepare = async (): Promise<string> => {
  const files = sourceFiles()
  const directory = join(cache, `program-${hashOf(files)}`)
  if (existsSync(directory)) return directory
  await mkdir(cache, { recursive: true })
  const work = mkdtempSync(join(cache, "building-"))
  await buildInto(work, files)
  try {
    renameSync(work, directory)
  } catch (error) {
    // Another test file was first with the same.
    if (!existsSync(directory)) throw error
    rmSync(work, { recursive: true })
  }
  return directory
}

let prepared: Promise<string> | undefined

/** The bundled program, which starts quickly: it loads a few files instead of hundreds. */
export interface BuiltProgram {
  readonly launcher: string
  /** For `NODE_COMPILE_CACHE`. */
  readonly compileCache: string
  /** The path of the build of a configuration file that tests give to processes; other paths stay. */
  readonly configOf: (path: string) => string
}

/** Bundles the program with its dependencies, once for all test files and for every run until a source changes. */
export const builtProgram = async (): Promise<BuiltProgram> => {
  const directory = await (prepared ??= prepare())
  return {
    launcher: join(directory, "bin/kiln.mjs"),
    compileCache: join(cache, "compiled"),
    configOf: (path) => {
      const built = join(directory, relative(repository, path).split(sep).join("/").replace(/\.ts$/, ".js"))
      return existsSync(built) ? built : path
    },
  }
}
