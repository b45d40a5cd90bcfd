import ts from "@typescript/typescript6"

/** In the order in which a page has them. */
export const groups = ["Functions", "Services", "Classes", "Values", "Namespaces", "Errors", "Types"] as const

export type Group = (typeof groups)[number]

export const isDeclared = ({ declarations = [] }: ts.Symbol): boolean => declarations.length > 0

/** The whole statement that declares something. */
export const statementOf = (declaration: ts.Declaration): ts.Statement => {
  const statement = ts.findAncestor(declaration, (node) => ts.isSourceFile(node.parent))
  if (statement === undefined || !ts.isStatement(statement)) throw new Error("a declaration within another one")
  return statement
}

const namesOf = (statement: ts.Statement): ReadonlyArray<string> => {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.getText())
  const { name } = statement as ts.DeclarationStatement
  return name === undefined ? [] : [name.text]
}

const isExported = (statement: ts.Statement): boolean =>
  ts.canHaveModifiers(statement) &&
  (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)

const wordsOf = (node: ts.Node, words = new Set<string>()): ReadonlySet<string> => {
  if (ts.isIdentifier(node)) words.add(node.text)
  ts.forEachChild(node, (child) => void wordsOf(child, words))
  return words
}

/**
 * The statements of the same files that these cannot be read without, and that nobody can look up, since their files keep
 * them to themselves: the base of a class, which holds the methods of a port, and parts of types.
 */
export const companionsOf = (statements: ReadonlyArray<ts.Statement>): ReadonlyArray<ts.Statement> => {
  const found = new Set<ts.Statement>(statements)
  // A set that grows while it is walked is walked to its end.
  for (const statement of found) {
    const words = wordsOf(statement)
    for (const other of statement.getSourceFile().statements) {
      if (!ts.isImportDeclaration(other) && !isExported(other) && namesOf(other).some((name) => words.has(name))) {
        found.add(other)
      }
    }
  }
  return [...found].slice(new Set(statements).size)
}

const isErrorClass = (declaration: ts.ClassDeclaration, checker: ts.TypeChecker): boolean => {
  const base = declaration.heritageClauses?.flatMap(({ types }) => [...types])[0]?.expression
  if (base === undefined) return false
  if (base.getText() === "Error") return true
  return (checker.getSymbolAtLocation(base)?.declarations ?? []).some((each) =>
    ts.isClassDeclaration(each) ? isErrorClass(each, checker) : /Error(Class|<)|YieldableError/.test(each.getText()),
  )
}

const isService = (declaration: ts.ClassDeclaration, checker: ts.TypeChecker): boolean => {
  const base = declaration.heritageClauses?.flatMap(({ types }) => [...types])[0]?.expression
  if (base === undefined) return false
  return (checker.getSymbolAtLocation(base)?.declarations ?? []).some((each) =>
    each.getText().includes("Context.Service"),
  )
}

const groupOfOne = (declaration: ts.Declaration, checker: ts.TypeChecker): Group => {
  if (ts.isFunctionDeclaration(declaration)) return "Functions"
  if (ts.isClassDeclaration(declaration)) {
    if (isErrorClass(declaration, checker)) return "Errors"
    return isService(declaration, checker) ? "Services" : "Classes"
  }
  if (!ts.isVariableDeclaration(declaration)) return "Types"
  const { type } = declaration
  const isCalled =
    type !== undefined &&
    (ts.isFunctionTypeNode(type) ||
      (ts.isTypeLiteralNode(type) && type.members.some((member) => ts.isCallSignatureDeclaration(member))))
  return isCalled ? "Functions" : "Values"
}

/** A value that is a type too is told as a value. */
export const groupOf = (declarations: ReadonlyArray<ts.Declaration>, checker: ts.TypeChecker): Group => {
  const found = declarations.map((declaration) => groupOfOne(declaration, checker))
  return found.find((group) => group !== "Types") ?? "Types"
}
