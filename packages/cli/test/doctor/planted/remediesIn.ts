/** A text in quotes or backquotes; `parts` are what stands between its `${…}`. */
interface Literal {
  readonly start: number
  readonly end: number
  readonly parts: ReadonlyArray<string>
}

/** Reads a template from its backquote on, with the templates inside of it. */
const readTemplate = (source: string, start: number): Literal => {
  const parts: Array<string> = []
  let [at, part] = [start + 1, ""]
  while (source[at] !== "`") {
    if (at >= source.length) throw new Error("a template does not end")
    if (source.startsWith("${", at)) {
      parts.push(part)
      part = ""
      at += 2
      for (let depth = 1; depth > 0; at++) {
        if (source[at] === "`") at = readTemplate(source, at).end - 1
        else if (source[at] === '"' || source[at] === "'") at = source.indexOf(String(source[at]), at + 1)
        else if (source[at] === "{") depth++
        else if (source[at] === "}") depth--
      }
    } else part += source[at++]
  }
  return { start, end: at + 1, parts: [...parts, part] }
}

/** Finds the literals of a source without escapes in its strings; nested ones belong to the outer one. */
const literalsIn = (source: string): ReadonlyArray<Literal> => {
  const found: Array<Literal> = []
  for (let at = 0; at < source.length; at++) {
    if (source.startsWith("//", at)) at = source.indexOf("\n", at)
    else if (source.startsWith("/*", at)) at = source.indexOf("*/", at) + 1
    else if (source[at] === '"' || source[at] === "'" || source[at] === "`") {
      const end = source.indexOf(String(source[at]), at + 1) + 1
      const literal =
        source[at] === "`" ? readTemplate(source, at) : { start: at, end, parts: [source.slice(at + 1, end - 1)] }
      found.push(literal)
      at = literal.end - 1
    }
  }
  return found
}

/** Begins the value of something that is called a remedy, or advice. */
const begins = /\bremedy:\s|\bconst \w*(?:[rR]emed|Advice|grants)\w*\b[^\n]*?=(?!>)\s/g

/** Where a value ends: at a comma or a bracket of what is around it, or with its last deeper line. */
const endOfValue = (masked: string, start: number): number => {
  const line = masked.lastIndexOf("\n", start) + 1
  const indent = /^ */.exec(masked.slice(line))?.[0].length ?? 0
  for (let at = start, depth = 0; at < masked.length; at++) {
    const sign = masked[at] ?? ""
    if ("([{".includes(sign)) depth++
    if (")]}".includes(sign) && --depth < 0) return at
    if (sign === "," && depth === 0) return at
    if (sign === "\n" && depth === 0 && (/^ */.exec(masked.slice(at + 1))?.[0].length ?? 0) <= indent) return at
  }
  return masked.length
}

/** Words that a message needs at least, so that names of settings and switches do not count. */
const leastWords = 2

/** Makes a pattern of a text. */
const escaped = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)

/** A remedy as a source contains it. */
export interface Remedy {
  /** With an ellipsis for each `${…}`. */
  readonly text: string
  /** What it prints. */
  readonly pattern: RegExp
}

/** Returns the remedies that a source contains. */
export const remediesIn = (source: string): ReadonlyArray<Remedy> => {
  const literals = literalsIn(source)
  const masked = literals.reduce(
    (text, { end, start }) => text.slice(0, start) + "_".repeat(end - start) + text.slice(end),
    source,
  )
  const regions = [...masked.matchAll(begins)].map((match) => {
    const start = match.index + match[0].length
    return { start, end: endOfValue(masked, start) }
  })
  return literals
    .filter((literal) => regions.some(({ end, start }) => literal.start >= start && literal.end <= end))
    .filter(({ parts }) => parts.join(" x ").trim().split(/\s+/).length >= leastWords)
    .filter(({ parts }) => parts.join("").length > 5)
    .map(({ parts }) => ({
      text: parts.join("…"),
      pattern: new RegExp(parts.map((part) => escaped(part)).join("[^]*")),
    }))
}
