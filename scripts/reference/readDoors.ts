import { dirname, relative } from "node:path"
import ts from "@typescript/typescript6"
import { companionsOf, groupOf, type Group, isDeclared, statementOf } from "./declarations.ts"

/** A name that a door lets through. */
export interface Exported {
  readonly name: string
  readonly group: Group
  /** Its docstring, as Markdown. */
  readonly doc: string
  /** Its declarations, docstrings of its members included. */
  readonly code: string
  /** The source it comes from, from the root of the repository. */
  readonly source: string
}

export interface ReadDoor {
  readonly exported: ReadonlyArray<Exported>
  /** Names that another door tells, each with that door. */
  readonly elsewhere: ReadonlyMap<string, string>
}

/** Reads declarations and nothing else: no package but kiln's own, no library. */
const programOf = (entries: ReadonlyArray<string>): ts.Program => {
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    noLib: true,
    types: [],
  }
  const host = ts.createCompilerHost(options)
  host.resolveModuleNameLiterals = (literals, containingFile) =>
    literals.map(({ text }) =>
      /^(\.|@kiln\/)/.test(text)
        ? ts.resolveModuleName(text, containingFile, options, host, undefined, undefined, ts.ModuleKind.ESNext)
        : { resolvedModule: undefined },
    )
  return ts.createProgram({ rootNames: entries, options, host })
}

/** `packages/core/dist/x.d.ts` was built from `packages/core/src/x.ts`. */
const sourceOf = (file: ts.SourceFile, root: string): string =>
  relative(root, file.fileName)
    .replace(/^(packages\/[^/]+)\/dist\//, "$1/src/")
    .replace(/\.d\.ts$/, ".ts")

const docOf = (statement: ts.Statement): string => {
  const file = statement.getSourceFile()
  const [comment] = (ts.getLeadingCommentRanges(file.text, statement.pos) ?? []).reverse()
  const text = comment === undefined ? "" : file.text.slice(comment.pos, comment.end)
  if (!text.startsWith("/**")) return ""
  return (
    text
      .slice("/**".length, -"*/".length)
      .split("\n")
      .map((line) => line.replace(/^\s*\* ?/, ""))
      .join("\n")
      // Examples are of what surrounds them; `ts` is for snippets that run.
      .replaceAll(/^```ts$/gm, "```cts")
      .trim()
  )
}

/** What a name stands for; a namespace stands for all that its module lets through. */
const read = (name: string, symbol: ts.Symbol, checker: ts.TypeChecker, root: string): Exported => {
  const isNamespace = (symbol.flags & ts.SymbolFlags.ValueModule) !== 0
  const symbols = isNamespace ? checker.getExportsOfModule(symbol).map((inner) => aliased(inner, checker)) : [symbol]
  const statements = [
    ...new Set(symbols.flatMap(({ declarations = [] }) => declarations.map((each) => statementOf(each)))),
  ]
  const [first] = statements
  if (first === undefined) throw new Error(`${name} has no declaration`)
  const docs = isNamespace ? statements.map((statement) => docOf(statement)) : []
  const texts = [...statements, ...companionsOf(statements)].map((statement, index) =>
    docs[index] ? `/** ${docs[index].replaceAll("\n", "\n * ")} */\n${statement.getText()}` : statement.getText(),
  )
  return {
    name,
    group: isNamespace ? "Namespaces" : groupOf(symbol.declarations ?? [], checker),
    doc: isNamespace ? "" : [...new Set(statements.map((statement) => docOf(statement)))].filter(Boolean).join("\n\n"),
    code: texts.join("\n\n"),
    source: sourceOf(first.getSourceFile(), root),
  }
}

const aliased = (symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol =>
  (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol)

/** What each door lets through, in their order; a name that several let through is told by the first of them. */
export const readDoors = (
  doors: ReadonlyArray<{ readonly name: string; readonly entry: string }>,
  root: string,
): ReadonlyMap<string, ReadDoor> => {
  const program = programOf(doors.map(({ entry }) => entry))
  const checker = program.getTypeChecker()
  const told = new Map<ts.Symbol, string>()
  return new Map(
    doors.map(({ entry, name: door }) => {
      const file = program.getSourceFile(entry)
      const module = file === undefined ? undefined : checker.getSymbolAtLocation(file)
      if (file === undefined) throw new Error(`${door} is not built: ${relative(dirname(root), entry)} is not there`)
      const symbols = module === undefined ? [] : checker.getExportsOfModule(module)
      const elsewhere = new Map<string, string>()
      const exported = symbols.flatMap((symbol): ReadonlyArray<Exported> => {
        const target = aliased(symbol, checker)
        if (!isDeclared(target)) throw new Error(`${door} lets through ${symbol.name}, which is of another package`)
        const home = told.get(target)
        if (home !== undefined) elsewhere.set(symbol.name, home)
        else told.set(target, door)
        return home === undefined ? [read(symbol.name, target, checker, root)] : []
      })
      return [door, { exported, elsewhere }]
    }),
  )
}
