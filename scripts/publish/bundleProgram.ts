import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { isBuiltin } from "node:module"
import { join, relative, resolve } from "node:path"
import { build as bundle, type Metafile, type Plugin } from "esbuild"
import { builtInPackages } from "./bundlePackages.ts"
import { licenses } from "./licenses.ts"
import { repository } from "./publicPackages.ts"
import { skipBarrels } from "./skipBarrels.ts"

const sources = join(repository, "packages/cli/src")
const built = join(repository, "packages/cli/dist")

/**
 * Where a bundle runs: in `@kiln/cli`, beside the packages it was made from, or alone, in the package `kiln`. Alone, files of another
 * package are in `parts/`, and the directory of the bundle is `dist/bundle` as well.
 */
type Surroundings = "packages" | "alone"

/** What an expression like `new URL("../assets", import.meta.url)` starts from, wherever the code has gone. */
const locationOf = (path: string, surroundings: Surroundings): string => {
  const [, name = "", source = ""] = /\/packages\/([^/]+)\/src\/(.*)\.ts$/.exec(path) ?? []
  const file = `dist/${source}.js`
  const beside = (target: string) => `new URL(${JSON.stringify(target)}, import.meta.url).href`
  if (name === "cli") return beside(relative("dist/bundle", file))
  if (surroundings === "alone") return beside(`../../parts/${name}/${file}`)
  // A package in the checkout does not export its manifest, only the published one does; both export `dist/index.js`.
  return `new URL(${JSON.stringify(`../${file}`)}, import.meta.resolve("@kiln/${name}")).href`
}

/**
 * Code that a command loads on demand, and loads in any case. Apart, it would break the bundle into more files, which take longer to load than
 * what is in them.
 */
const neededAnyway =
  /\bimport\("(\.\.?\/(?:backup|copy|doctor|management|serve|commands)\/\w+\.ts|\.\/(?:builtInKinds|wholeKind)\.ts)"\)/g

/** Replaces the imports on demand of a text by imports that come with it. */
const joinNeeded = (path: string, text: string): string => {
  if (path.endsWith("/program.ts")) return text
  const needed = [...new Set([...text.matchAll(neededAnyway)].map(([, specifier = ""]) => specifier))]
  const imports = needed.map((specifier, index) => `import * as needed${index} from ${JSON.stringify(specifier)}\n`)
  const joined = text.replaceAll(neededAnyway, (_, specifier) => `Promise.resolve(needed${needed.indexOf(specifier)})`)
  return imports.join("") + joined
}

const ownSources = (surroundings: Surroundings): Plugin => ({
  name: "own-sources",
  setup: (build) => {
    const direct = skipBarrels()
    build.onLoad({ filter: /\/packages\/[^/]+\/src\/.*\.ts$/ }, ({ path }) => ({
      loader: "ts",
      contents: joinNeeded(path, direct(path, readFileSync(path, "utf8"))).replaceAll(/\bimport\.meta\.url\b/g, () =>
        locationOf(path, surroundings),
      ),
    }))
  },
})

/**
 * An `import` of a module of Node reads all of its properties, and many of them load something: one of `node:http` the WebSocket client, which
 * takes as long as Effect, one of `node:fs` its streams. This reads the properties that are used. `require` reads none.
 */
const readBuiltIns: Plugin = {
  name: "read-built-ins",
  setup: (build) => {
    build.onResolve({ filter: /^(node:)?[a-z_/]+$/ }, ({ kind, path }) =>
      kind === "import-statement" && isBuiltin(path)
        ? { path: path.replace(/^(?:node:)?/, "node:"), namespace: "built-in", sideEffects: false }
        : undefined,
    )
    build.onLoad({ filter: /.*/, namespace: "built-in" }, ({ path }) => {
      const names = Object.keys(process.getBuiltinModule(path) ?? {}).filter(
        (name) => /^[a-zA-Z_$][\w$]*$/.test(name) && name !== "default",
      )
      return {
        loader: "js",
        contents: [
          `const found = process.getBuiltinModule(${JSON.stringify(path)})`,
          "export default found",
          ...names.map((name, index) => `const p${index} = /* @__PURE__ */ (() => found.${name})()`),
          `export { ${names.map((name, index) => `p${index} as ${name}`).join(", ")} }`,
        ].join("\n"),
      }
    })
  },
}

/** The native driver of SQLite finds its binary beside itself. In `@kiln/cli`, it is a peer of the adapter, which every installation has. */
const resolveNative = (surroundings: Surroundings): Plugin => ({
  name: "resolve-native",
  setup: (build) => {
    build.onResolve({ filter: /^better-sqlite3$/ }, ({ path }) => ({ path, namespace: "native" }))
    build.onLoad({ filter: /.*/, namespace: "native" }, () => ({
      loader: "js",
      contents: `import { createRequire } from "node:module"
        const here = createRequire(import.meta.url)
        export default ${surroundings === "alone" ? "here" : `createRequire(here.resolve("@kiln/adapter-sqlite"))`}("better-sqlite3")`,
    }))
  },
})

/** The directories of other people's packages in the bundle. */
const packagesIn = ({ inputs }: Metafile): ReadonlyArray<string> => {
  const roots = Object.keys(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0] ?? [])
  return [...new Set([...roots, ...builtInPackages()])].map((root) => resolve(repository, root))
}

const bundleEntry = async (entry: string, outdir: string, surroundings: Surroundings): Promise<Metafile> => {
  const { metafile } = await bundle({
    absWorkingDir: repository,
    entryPoints: [join(sources, entry)],
    outdir,
    bundle: true,
    // What a command loads on demand stays apart.
    splitting: true,
    conditions: ["@kiln/source"],
    format: "esm",
    platform: "node",
    target: "node22",
    external: ["pg-native"],
    legalComments: "none",
    banner: { js: `import { createRequire as r } from "node:module"; const require = r(import.meta.url)` },
    metafile: true,
    plugins: [ownSources(surroundings), readBuiltIns, resolveNative(surroundings)],
    logLevel: "error",
  })
  return metafile
}

/**
 * Bundles the command line with everything it imports, into `packages/cli/dist/bundle` unless told otherwise: it loads thirty
 * files instead of a thousand, and starts in a third of the time. Commands that only read or change records are bundled once more, in
 * `brief` beside it: loading a file takes longer than what is in it, and of the whole program they need pieces of fifty. Needs the output of the compiler,
 * for the texts of the launcher.
 */
export const bundleProgram = async (
  program = join(built, "bundle"),
  surroundings: Surroundings = "packages",
): Promise<void> => {
  const brief = join(program, "../brief")
  for (const directory of [program, brief]) rmSync(directory, { recursive: true, force: true })
  const metafile = await bundleEntry("main.ts", program, surroundings)
  await bundleEntry("brief.ts", brief, surroundings)
  mkdirSync(program, { recursive: true })
  writeFileSync(join(program, "LICENSES.txt"), licenses(packagesIn(metafile)))
  const { answers }: { readonly answers: () => Promise<object> } = await import(join(built, "answers.js"))
  writeFileSync(join(program, "answers.json"), JSON.stringify(await answers()))
}
