import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parse, parseAllDocuments, stringify } from "yaml"
import { repository } from "../../support/plantTree.ts"

/**
 * Renders the chart in `deploy/helm/kiln` where Helm is not installed. It knows the actions that the chart uses and fails on any
 * other, so it is no substitute for `helm template`, which a test compares with it where Helm is installed.
 */

const chart = join(repository, "deploy/helm/kiln")
const read = (path: string): string => readFileSync(join(chart, path), "utf8")

export const defaultValues = (): Values => parse(read("values.yaml")) as Values
export const valuesSchema = (): object => JSON.parse(read("values.schema.json")) as object

export type Values = Readonly<Record<string, unknown>>
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> }
  readonly spec: unknown
}

interface Scope {
  readonly dot: Values
  readonly variables: Readonly<Record<string, unknown>>
}

/** An action, or the text between two of them. Dashes remove the white space beside an action. */
type Piece = { readonly text: string } | { readonly action: string }

const piecesOf = (template: string): ReadonlyArray<Piece> =>
  template
    .replaceAll(/\s*\{\{-/g, "{{")
    .replaceAll(/-\}\}\s*/g, "}}")
    .split(/(\{\{.*?\}\})/)
    .map((text) => (text.startsWith("{{") ? { action: text.slice(2, -2).trim() } : { text }))

/** Renders the templates with these values, for a release of this name. */
export const renderChart = (values: Values, release = "kiln"): ReadonlyArray<Manifest> => {
  const { appVersion } = parse(read("Chart.yaml")) as { readonly appVersion: string }
  const defined = new Map<string, ReadonlyArray<Piece>>()
  const dot = { Values: values, Release: { Name: release, Service: "Helm" }, Chart: { AppVersion: appVersion } }

  const lookUp = (path: string, { dot: from, variables }: Scope): unknown => {
    if (path === ".") return from
    if (path.startsWith("$")) return variables[path]
    return path
      .split(".")
      .slice(1)
      .reduce<unknown>((at, name) => (at as Values | undefined)?.[name], from)
  }
  const argument = (text: string, scope: Scope): unknown => {
    if (/^".*"$/.test(text)) return text.slice(1, -1)
    if (/^\d+$/.test(text)) return Number(text)
    if (/^[.$]/.test(text)) return lookUp(text, scope)
    throw new Error(`unknown argument: ${text}`)
  }
  const functions: Readonly<Record<string, (...args: ReadonlyArray<unknown>) => unknown>> = {
    include: (name, from) => render(defined.get(String(name)) ?? [], { dot: from as Values, variables: {} }),
    nindent: (spaces, text) =>
      `\n${String(text)
        .trimEnd()
        .replaceAll(/^(?=.)/gm, " ".repeat(Number(spaces)))}`,
    quote: (text) => JSON.stringify(String(text)),
    toYaml: (value) => stringify(value),
    add: (...numbers) => numbers.reduce<number>((sum, number) => sum + Number(number), 0),
  }
  const evaluate = (pipeline: string, scope: Scope): unknown =>
    pipeline.split(" | ").reduce<unknown>((input, command, index) => {
      const [name = "", ...rest] = command.match(/"[^"]*"|\S+/g) ?? []
      const known = functions[name]
      if (known === undefined) return argument(name, scope)
      return known(...rest.map((text) => argument(text, scope)), ...(index === 0 ? [] : [input]))
    }, undefined)

  /** Returns the index of the action that ends a block. */
  const endOf = (pieces: ReadonlyArray<Piece>, begin: number): number => {
    let depth = 0
    for (let at = begin; at < pieces.length; at++) {
      const piece = pieces[at]
      if (piece === undefined || !("action" in piece)) continue
      if (/^(if|range|define)\b/.test(piece.action)) depth++
      if (piece.action === "end" && --depth === 0) return at
    }
    throw new Error("a block does not end")
  }
  const render = (pieces: ReadonlyArray<Piece>, scope: Scope): string => {
    let text = ""
    for (let at = 0; at < pieces.length; at++) {
      const piece = pieces[at]
      if (piece === undefined) continue
      if ("text" in piece) {
        text += piece.text
        continue
      }
      const [word = "", rest = ""] = /^(if|range|define) (.*)$/.exec(piece.action)?.slice(1) ?? []
      if (word === "") {
        const value = evaluate(piece.action, scope)
        if (typeof value !== "string" && typeof value !== "number") throw new Error(`no text: ${piece.action}`)
        text += value
        continue
      }
      const end = endOf(pieces, at)
      const body = pieces.slice(at + 1, end)
      at = end
      if (word === "define") defined.set(rest.slice(1, -1), body)
      else if (word === "if") text += evaluate(rest, scope) ? render(body, scope) : ""
      else text += renderRange(rest, body, scope)
    }
    return text
  }
  const renderRange = (clause: string, body: ReadonlyArray<Piece>, scope: Scope): string => {
    const [, name = "", value = "", from = ""] = /^(\$\w+), (\$\w+) := (.*)$/.exec(clause) ?? []
    return Object.entries((lookUp(from, scope) ?? {}) as Values)
      .map(([key, entry]) => render(body, { ...scope, variables: { ...scope.variables, [name]: key, [value]: entry } }))
      .join("")
  }

  render(piecesOf(read("templates/_helpers.tpl")), { dot, variables: {} })
  return globSync("templates/*.yaml", { cwd: chart })
    .toSorted()
    .flatMap((path) => manifestsIn(render(piecesOf(read(path)), { dot, variables: {} })))
}

/** Parses the documents of a rendered chart. Throws at the first problem, such as a repeated key. */
export const manifestsIn = (text: string): ReadonlyArray<Manifest> =>
  parseAllDocuments(text).flatMap((document) => {
    const [problem] = document.errors
    if (problem !== undefined) throw problem
    return document.contents === null ? [] : [document.toJS() as Manifest]
  })
