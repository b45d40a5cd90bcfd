// Compiles the operator's page into packages/dashboard/src/page/assets.ts; or with `--check` fails if that differs.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { build, type InlineConfig, type Rolldown } from "vite"

const dashboard = join(import.meta.dirname, "../packages/dashboard")
const committed = join(dashboard, "src/page/assets.ts")

/** Compiles the page into three files with fixed names. */
const config: InlineConfig = {
  configFile: false,
  root: join(dashboard, "page"),
  base: "./",
  logLevel: "warn",
  mode: "production",
  // Tests run with another value, and the result must not depend on it.
  define: { "process.env.NODE_ENV": '"production"' },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    write: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: "app.js",
        codeSplitting: false,
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "app.css" : "[name][extname]"),
      },
    },
  },
}

/** Compiles the page, and returns the text of `src/page/assets.ts`. */
const compilePage = async (): Promise<string> => {
  const built = (await build(config)) as Rolldown.RolldownOutput
  const files = new Map<string, string>(
    built.output.map((file) => [
      file.fileName,
      file.type === "chunk" ? file.code : Buffer.from(file.source).toString("utf8"),
    ]),
  )
  const names = [...files.keys()].toSorted()
  if (names.join() !== "app.css,app.js,index.html") throw new Error(`the page was compiled into ${names.join(", ")}`)
  const entries = ["index.html", "app.css", "app.js"].map((name) => `  "${name}": ${JSON.stringify(files.get(name))},`)
  return `/** The compiled page. Written by \`pnpm dashboard\`. */\nexport const assets = {\n${entries.join("\n")}\n} as const\n`
}

const compiled = await compilePage()

if (process.argv.includes("--check")) {
  const isCurrent = readFileSync(committed, "utf8") === compiled
  if (!isCurrent) console.log("the compiled page is stale: run `npx -y pnpm@12 dashboard`")
  process.exitCode = isCurrent ? 0 : 1
} else {
  writeFileSync(committed, compiled)
  console.log("wrote packages/dashboard/src/page/assets.ts")
}
