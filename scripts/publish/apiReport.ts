// Writes etc/*.api.md, what each door lets through, or with `--check` fails if they differ: `pnpm api-report`.
//
// A change of a public signature shows in these files, and so in the review of whatever changed it.
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import ts from "@typescript/typescript6"
import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor"
import { difference } from "../difference.ts"
import { build } from "./build.ts"
import { publicPackages, repository } from "./publicPackages.ts"

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
  publicPackages().flatMap(({ directory, manifest }) =>
    Object.entries(manifest.exports).map(([door, { types = "" }]) => ({
      file: [basename(directory), ...door.split("/").slice(1), "api.md"].join("."),
      title: manifest.name + door.slice(1),
      packageDirectory: join(repository, directory),
      entry: join(repository, directory, types),
    })),
  )

/** The reader has TypeScript 6 within it, which reads what TypeScript 7 declares. */
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
        // The base of a class holds its fields, or the methods of a port: without it the report says next to nothing.
        includeForgottenExports: true,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      // Its remarks on the style of comments are not ours.
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

/** One declaration of a report, or one import. */
interface Declaration {
  readonly text: string
  readonly name: string
  readonly isExported: boolean
}

/**
 * The same text with the members of every union in the order of their letters, `null` and `undefined` last: the compiler writes
 * a union that it inferred in another order at each build, and the order says nothing.
 */
const withUnionsInOrder = (text: string): string => {
  const file = ts.createSourceFile("report.d.ts", text, ts.ScriptTarget.Latest, true)
  /** Returns the text of `node` with sorted unions. Text between its children, such as comments, stays in place. */
  const written = (node: ts.Node): string => {
    const parts: Array<string> = []
    let end = node.getStart(file)
    ts.forEachChild(node, (child) => {
      parts.push(text.slice(end, child.getStart(file)), written(child))
      end = child.end
    })
    if (!ts.isUnionTypeNode(node)) return parts.join("") + text.slice(end, node.end)
    const { absent = [], present = [] } = Object.groupBy(node.types.map(written).toSorted(), (member) =>
      member === "null" || member === "undefined" ? "absent" : "present",
    )
    return [...present, ...absent].join(" | ")
  }
  return text.slice(0, file.getStart(file)) + written(file)
}

/** The declarations of a report, without the remarks that are the same at every name. */
const declarationsOf = (report: string): ReadonlyArray<Declaration> =>
  withUnionsInOrder(
    report
      .slice(report.indexOf("```ts") + "```ts".length, report.lastIndexOf("```"))
      .replaceAll(/^ *\/\/ (\(undocumented\)|@public|\(No @packageDocumentation|Warning: ).*\n/gm, ""),
  )
    .split(/\n\s*\n|\n(?=import )/)
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
 * A name that a door needs but does not let through is told once, where it is a door's own: in the report of that door. One
 * that is of no door stays, for there is no other place to see it, as does the base of a class that is let through.
 */
const toldHere = (declarations: ReadonlyArray<Declaration>, ofPackage: ReadonlySet<string>): Array<Declaration> => {
  const exported = new Set(declarations.filter(({ isExported }) => isExported).map(({ name }) => name))
  const kept = declarations.filter(({ isExported, name, text }) => {
    const toldAs = name.replace(/_base$/, "")
    return isExported || text.startsWith("import ") || exported.has(toldAs) || !ofPackage.has(toldAs)
  })
  const body = kept.filter(({ text }) => !text.startsWith("import ")).map(({ text }) => text)
  const words = new Set(body.join("\n").match(/\w+/g))
  return kept.filter(({ text }) => !text.startsWith("import ") || words.has(/(\w+)[ }]* from /.exec(text)?.[1] ?? ""))
}

/** The fence is called `cts`, which is colored as TypeScript, and which the check of snippets leaves alone. */
const page = (title: string, declarations: ReadonlyArray<Declaration>): string => {
  const text = declarations
    .map((declaration, index) => {
      const follows = declarations[index - 1]?.text.startsWith("import ") && declaration.text.startsWith("import ")
      return `${index === 0 ? "" : follows ? "\n" : "\n\n"}${declaration.text}`
    })
    .join("")
  return `# ${title}\n\nWritten by \`pnpm api-report\` from what is built.\n\n\`\`\`cts\n${text}\n\`\`\`\n`
}

/** The text of every report under the name of its file. */
export const apiReports = (): ReadonlyMap<string, string> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-api-"))
  mkdirSync(join(directory, "temp"))
  try {
    const read = doors().map((door) => ({ door, declarations: declarationsOf(extract(door, directory)) }))
    return new Map(
      read.map(({ declarations, door }) => {
        const siblings = read.filter((other) => other.door.packageDirectory === door.packageDirectory)
        const exported = siblings.flatMap((other) => other.declarations.filter(({ isExported }) => isExported))
        const told = toldHere(declarations, new Set(exported.map(({ name }) => name)))
        return [door.file, page(door.title, told)]
      }),
    )
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
    .map((file) => `etc/${file} is of no door`)
  for (const line of [...stale, ...left]) console.log(`${line}: run \`npx -y pnpm@12 api-report\``)
  console.log(`${reports.size} doors read, ${stale.length + left.length} reports differ`)
  if (stale.length + left.length > 0) process.exitCode = 1
}

if (import.meta.main) {
  build()
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
