// Compiles the pages into the packages that serve them; or with `--check` fails if what is committed differs.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { build, type InlineConfig, type Rolldown } from "vite"
import { readErrorRemedies } from "./pages/errorRemedies.ts"
import { renderGuides } from "./pages/guides.ts"

const packages = join(import.meta.dirname, "../packages")

/** The files of a compiled page. */
type Files = Readonly<Record<"index.html" | "app.css" | "app.js", string>>

interface Page {
  /** Directory of the page's sources. */
  readonly root: string
  /** The module that is written. */
  readonly committed: string
  readonly write: (files: Files) => string
}

const header = "/** The compiled page. Written by `pnpm pages`. */\n"

/** A page that is served as three files. */
const asAssets = (files: Files): string => {
  const entries = Object.entries(files).map(([name, text]) => `  "${name}": ${JSON.stringify(text)},`)
  return `${header}export const assets = {\n${entries.join("\n")}\n} as const\n`
}

/** A page that is served as one document: its script and style go into the markup when it is served. */
const asPage = ({ "app.css": style, "app.js": script, "index.html": markup }: Files): string => {
  // A script ends at its end tag, even within a string.
  if (/<\/script/i.test(script) || /<\/style/i.test(style)) throw new Error("a compiled page contains an end tag")
  const html = markup
    .replaceAll(/\s*<script\b[^>]*><\/script>/g, "")
    .replaceAll(/\s*<link rel="stylesheet"[^>]*>/g, "")
    .replaceAll(/>\s+</g, "><")
  const text = JSON.stringify({ html, style: style.trim(), script: script.trim() })
  // Guides quote it, and bundlers replace it wherever they find it.
  return `${header}export const page = ${text.replaceAll("import.meta", String.raw`import.\u006deta`)} as const\n`
}

const pages: ReadonlyArray<Page> = [
  { root: "dashboard/page", committed: "dashboard/src/page/assets.ts", write: asAssets },
  { root: "pages/page/playground", committed: "http/src/pages/compiled/playground.ts", write: asPage },
  { root: "pages/page/docs", committed: "http/src/pages/compiled/docs.ts", write: asPage },
]

/** Compiles a page into three files with fixed names. */
const configOf = ({ root }: Page): InlineConfig => ({
  configFile: false,
  root: join(packages, root),
  base: "./",
  logLevel: "warn",
  mode: "production",
  // Tests run with another value, and the result must not depend on it.
  define: {
    "process.env.NODE_ENV": '"production"',
    REMEDIES: JSON.stringify(readErrorRemedies()),
    GUIDES: JSON.stringify(renderGuides()),
  },
  resolve: { conditions: ["@kiln/source", "module", "browser"] },
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
})

/** Compiles a page, and returns the text of its module. */
const compile = async (page: Page): Promise<string> => {
  const built = (await build(configOf(page))) as Rolldown.RolldownOutput
  const files = new Map<string, string>(
    built.output.map((file) => [
      file.fileName,
      file.type === "chunk" ? file.code : Buffer.from(file.source).toString("utf8"),
    ]),
  )
  const names = [...files.keys()].toSorted()
  if (names.join() !== "app.css,app.js,index.html")
    throw new Error(`${page.root} was compiled into ${names.join(", ")}`)
  const fileOf = (name: string): string => files.get(name) ?? ""
  return page.write({ "index.html": fileOf("index.html"), "app.css": fileOf("app.css"), "app.js": fileOf("app.js") })
}

for (const page of pages) {
  const compiled = await compile(page)
  const committed = join(packages, page.committed)
  if (!process.argv.includes("--check")) {
    writeFileSync(committed, compiled)
    console.log(`wrote packages/${page.committed}`)
  } else if (readFileSync(committed, "utf8") !== compiled) {
    console.log(`packages/${page.committed} is stale: run \`npx -y pnpm@12 pages\``)
    process.exitCode = 1
  }
}
