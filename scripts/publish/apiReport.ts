// Writes etc/*.api.md, the public signatures of each entry point, or with `--check` fails if they differ: `pnpm api-report`.
//
// A change of a public signature changes these files, so a reviewer sees it. They are meant to be read: imports and the insides
// of long inferred types are left out.
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import ts from "@typescript/typescript6"
import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor"
import { difference } from "../difference.ts"
import { build } from "./build.ts"
import { publicPackages, repository } from "./publicPackages.ts"

/** Entry points without a report: few people import them, and other checks cover what they promise. */
const unreported: ReadonlySet<string> = new Set([
  // `docs/openapi.json` shows what it declares.
  "@kiln/client/api",
  // `docs/openapi-admin.json` shows what it declares.
  "@kiln/dashboard/api",
  // Parts for the command line.
  "@kiln/dashboard/effect",
  "@kiln/dashboard/token",
  "@kiln/conformance",
  "@kiln/conformance/model",
  "@kiln/core/worker",
  "@kiln/testing/openai",
  "@kiln/testing/vitest",
])

interface DoorToReport {
  /** Such as `core.domain.api.md`. */
  readonly file: string
  /** Such as `@kiln/core/domain`. */
  readonly title: string
  readonly packageDirectory: string
  /** The declarations of the door. */
  readonly entry: string
}

const doors = (): ReadonlyArray<DoorToReport> =>
  publicPackages()
    .flatMap(({ directory, manifest }) =>
      Object.entries(manifest.exports).map(([door, { types = "" }]) => ({
        file: [basename(directory), ...door.split("/").slice(1), "api.md"].join("."),
        title: manifest.name + door.slice(1),
        packageDirectory: join(repository, directory),
        entry: join(repository, directory, types),
      })),
    )
    .filter(({ title }) => !unreported.has(title))

/** Runs API Extractor, whose own TypeScript 6 can read what TypeScript 7 declares, on one entry point. */
const extract = ({ entry, file, packageDirectory, title }: DoorToReport, directory: string): string => {
  const silent = { default: { logLevel: ExtractorLogLevel.None } }
  const configuration = ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: join(packageDirectory, "package.json"),
    configObject: {
      projectFolder: packageDirectory,
      mainEntryPointFilePath: entry,
      compiler: { overrideTsconfig: { compilerOptions, files: [entry] } },
      apiReport: {
        enabled: true,
        reportFileName: file,
        reportFolder: directory,
        reportTempFolder: join(directory, "temp"),
        // The base of a class holds its fields, or the methods of a port.
        includeForgottenExports: true,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      // The linter checks comments.
      messages: {
        compilerMessageReporting: silent,
        extractorMessageReporting: silent,
        tsdocMessageReporting: silent,
      },
    },
  })
  const problems: Array<string> = []
  const { succeeded } = Extractor.invoke(configuration, {
    localBuild: true,
    messageCallback: (message) => {
      message.handled = true
      if (message.logLevel === ExtractorLogLevel.Error) problems.push(message.text)
    },
  })
  if (!succeeded) throw new Error(`${title} could not be reported: ${problems.join("\n")}`)
  return readFileSync(join(directory, file), "utf8")
}

const compilerOptions = {
  target: "ES2024",
  lib: ["ES2024", "ESNext.Disposable", "DOM"],
  module: "NodeNext",
  moduleResolution: "NodeNext",
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: true,
  types: ["node"],
  typeRoots: [join(repository, "node_modules/@types")],
}

/** One declaration of a report. */
interface Declaration {
  readonly text: string
  readonly name: string
  readonly isExported: boolean
}

/** Object types nested this deep within an inferred type are shortened if they are long. */
const DEEP = 2
const LONG = 5

/**
 * Returns the same declarations in a form that is stable and short. The members of unions are sorted, `null` and `undefined`
 * last, because the compiler orders inferred unions differently in each build. In the type of a `const`, which is mostly
 * inferred, a long object type within other object types is reduced to the number of its members.
 */
const tidy = (text: string): string => {
  const file = ts.createSourceFile("report.d.ts", text, ts.ScriptTarget.Latest, true)
  /** Prints a node. `depth` counts the object types around it within a `const`, and is undefined elsewhere. */
  const printed = (node: ts.Node, depth: number | undefined): string => {
    const isObject = ts.isTypeLiteralNode(node)
    const lines = node.getText(file).split("\n").length
    if (isObject && depth !== undefined && depth >= DEEP && lines > LONG)
      return `{ /* ${node.members.length} members */ }`
    const inner = ts.isVariableDeclaration(node) ? 0 : isObject && depth !== undefined ? depth + 1 : depth
    const parts: Array<string> = []
    let end = node.getStart(file)
    ts.forEachChild(node, (child) => {
      parts.push(text.slice(end, child.getStart(file)), printed(child, inner))
      end = child.end
    })
    if (!ts.isUnionTypeNode(node)) return parts.join("") + text.slice(end, node.end)
    const members = new Set(node.types.map((member) => printed(member, inner)))
    const { absent = [], present = [] } = Object.groupBy([...members].toSorted(), (member) =>
      member === "null" || member === "undefined" ? "absent" : "present",
    )
    return [...present, ...absent].join(" | ")
  }
  return text.slice(0, file.getStart(file)) + printed(file, undefined)
}

/** The declarations of a report, without imports and without API Extractor's notes on each name. */
const declarationsOf = (report: string): ReadonlyArray<Declaration> =>
  tidy(
    report
      .slice(report.indexOf("```ts") + "```ts".length, report.lastIndexOf("```"))
      .replaceAll(/^ *\/\/ (\(undocumented\)|@public|\(No @packageDocumentation|Warning: ).*\n/gm, "")
      .replaceAll(/^import .*\n/gm, ""),
  )
    .split(/\n\s*\n/)
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .map((text) => {
      const [, exported, name = ""] =
        /^(export )?(?:default |declare |abstract )*(?:class|const|enum|function|interface|let|namespace|type) (\w+)/.exec(
          text,
        ) ?? []
      return { text, name, isExported: exported !== undefined || text.startsWith("declare namespace") }
    })

/**
 * Leaves out what an entry point needs but does not export if it is exported elsewhere in the package, or if it is a value: its
 * name says enough. The base of an exported class stays.
 */
const withoutInternals = (
  declarations: ReadonlyArray<Declaration>,
  ofPackage: ReadonlySet<string>,
): ReadonlyArray<Declaration> => {
  const exported = new Set(declarations.filter(({ isExported }) => isExported).map(({ name }) => name))
  return declarations.filter(({ isExported, name, text }) => {
    const shownAs = name.replace(/_base$/, "")
    return isExported || exported.has(shownAs) || !(ofPackage.has(shownAs) || /^(abstract )?(class|const) /.test(text))
  })
}

interface Report {
  readonly door: DoorToReport
  readonly declarations: ReadonlyArray<Declaration>
}

/** The reports of one package. A declaration that several entry points export is shown by the one that exports least. */
const reportsOf = (reports: ReadonlyArray<Report>): ReadonlyArray<readonly [file: string, text: string]> => {
  const ofPackage = new Set(
    reports.flatMap(({ declarations }) => declarations.filter(({ isExported }) => isExported).map(({ name }) => name)),
  )
  const shownBy = new Map<string, string>()
  return reports
    .toSorted((one, other) => one.declarations.length - other.declarations.length)
    .map(({ declarations, door }) => {
      const elsewhere: Record<string, Array<string>> = {}
      const shown = withoutInternals(declarations, ofPackage).filter(({ name, text }) => {
        const by = shownBy.get(text)
        if (by === undefined) shownBy.set(text, door.title)
        else if (!name.endsWith("_base")) (elsewhere[by] ??= []).push(name)
        return by === undefined
      })
      return [door.file, page(door.title, shown, elsewhere)]
    })
}

/** The fence is called `cts`, which is highlighted as TypeScript and ignored by the check of snippets. */
const page = (
  title: string,
  declarations: ReadonlyArray<Declaration>,
  elsewhere: Readonly<Record<string, ReadonlyArray<string>>>,
): string =>
  [
    `# ${title}`,
    "Written by `pnpm api-report`.",
    `\`\`\`cts\n${declarations.map(({ text }) => text).join("\n\n")}\n\`\`\``,
    ...Object.entries(elsewhere).map(([door, names]) => `Also exports from \`${door}\`: ${names.join(", ")}.`),
  ].join("\n\n") + "\n"

/** The text of every report under the name of its file. */
export const apiReports = (): ReadonlyMap<string, string> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-api-"))
  mkdirSync(join(directory, "temp"))
  try {
    const read = doors().map((door) => ({ door, declarations: declarationsOf(extract(door, directory)) }))
    const packages = Object.groupBy(read, ({ door }) => door.packageDirectory)
    return new Map(Object.values(packages).flatMap((reports = []) => reportsOf(reports)))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

const check = (reports: ReadonlyMap<string, string>, committed: string): void => {
  const stale = [...reports].flatMap(([file, text]) => {
    const reason = difference(text, join(committed, file))
    return reason === undefined ? [] : [`etc/${file} ${reason}`]
  })
  const left = globSync("*.api.md", { cwd: committed })
    .filter((file) => !reports.has(file))
    .map((file) => `etc/${file} belongs to no entry point`)
  for (const line of [...stale, ...left]) console.log(`${line}: run \`npx -y pnpm@12 api-report\``)
  console.log(`${reports.size} entry points read, ${stale.length + left.length} reports differ`)
  if (stale.length + left.length > 0) process.exitCode = 1
}

if (import.meta.main) {
  await build()
  const committed = join(repository, "etc")
  const reports = apiReports()
  if (process.argv.includes("--check")) check(reports, committed)
  else {
    rmSync(committed, { recursive: true, force: true })
    mkdirSync(committed)
    for (const [file, text] of reports) writeFileSync(join(committed, file), text)
    console.log(`wrote ${reports.size} reports to etc/`)
  }
}
