// Small changes of a statement or of the body of a function in SQL, for scripts/mutation/statements.ts. Locks are left alone: no check
// that runs on its own can notice them.

/** A change of a text: what replaces the characters from `start` to `end`. */
export interface SqlMutant {
  readonly kind: string
  readonly start: number
  readonly end: number
  readonly by: string
}

interface Token {
  /** Lower case, except of strings and quoted names. */
  readonly text: string
  readonly start: number
  readonly end: number
  /** The number of brackets around it; of a bracket, those around its content. */
  readonly depth: number
}

const lexeme = /--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+|\d+|[a-z_]\w*|::|:=|=>|<=|>=|<>|->>|->|\|\||\S/gi

const tokensOf = (text: string): ReadonlyArray<Token> => {
  let depth = 0
  const tokens: Array<Token> = []
  for (const { 0: found, index: start } of text.matchAll(lexeme)) {
    if (found.startsWith("--")) continue
    if ("([".includes(found)) depth += 1
    tokens.push({ text: /^['"]/.test(found) ? found : found.toLowerCase(), start, end: start + found.length, depth })
    if (")]".includes(found)) depth -= 1
  }
  return tokens
}

/** Words that end a condition, a list of an ORDER BY, or a LIMIT. */
const ending = new Set(
  (
    "group order limit returning then union join left cross inner for offset loop where else end when set do having on from ; " +
    "into window select insert update delete"
  ).split(" "),
)
const conditionOf = new Set(["where", "on", "when", "if", "elsif", "while", "having"])
const swaps: Readonly<Record<string, string>> = {
  "<=": "<",
  "<": "<=",
  ">=": ">",
  ">": ">=",
  "<>": "=",
  "=": "<>",
  true: "false",
  false: "true",
  min: "max",
  max: "min",
  least: "greatest",
  greatest: "least",
  asc: "desc",
  desc: "asc",
}
const isOperand = (token: Token | undefined): boolean =>
  token !== undefined &&
  /^['"$\w)\]?]/.test(token.text) &&
  !ending.has(token.text) &&
  !/^(and|or|not|case|by|return)$/.test(token.text)

/** Returns where the part that begins at a token ends: the first token behind it. */
const endOf = (tokens: ReadonlyArray<Token>, from: number, depth: number, stops: ReadonlySet<string>): number => {
  let nested = 0
  for (let index = from; index < tokens.length; index += 1) {
    const { depth: own, text } = tokens[index] as Token
    if (own < depth || (own === depth && ")]".includes(text))) return index
    if (own !== depth) continue
    if (text === "case") nested += 1
    else if (nested > 0 && text === "end") nested -= 1
    else if (nested === 0 && stops.has(text)) return index
  }
  return tokens.length
}

/** Splits the tokens from `from` to `to` at these words of a depth. BETWEEN keeps its AND. */
const split = (tokens: ReadonlyArray<Token>, from: number, to: number, depth: number, at: ReadonlyArray<string>) => {
  const parts: Array<{ from: number; to: number }> = []
  let [start, nested, between] = [from, 0, false]
  for (let index = from; index < to; index += 1) {
    const { depth: own, text } = tokens[index] as Token
    if (own !== depth || ")]".includes(text)) continue
    if (text === "case") nested += 1
    else if (text === "end") nested -= 1
    else if (text === "between") between = true
    else if (nested === 0 && at.includes(text)) {
      if (!between) {
        parts.push({ from: start, to: index })
        start = index + 1
      }
      between = false
    }
  }
  return [...parts, { from: start, to }].filter((part) => part.from < part.to)
}

/** Returns the mutants of a text, in their order. Some may be no valid SQL. */
export const sqlMutantsOf = (sql: string): ReadonlyArray<SqlMutant> => {
  const tokens = tokensOf(sql)
  const found: Array<SqlMutant> = []
  const put = (kind: string, from: number, to: number, by: string): void => {
    const [first, last] = [tokens[from], tokens[to - 1]]
    if (first === undefined || last === undefined) return
    const mutant = { kind, start: first.start, end: last.end, by }
    if (!/advisory|set_config|lock_timeout/.test(sql.slice(mutant.start, mutant.end))) found.push(mutant)
  }
  const textOf = (from: number, to: number) => sql.slice(tokens[from]?.start, tokens[to - 1]?.end)
  /** Condition by condition. A single one is also made false where that is not an endless loop or an empty result. */
  const conditions = (from: number, to: number, depth: number, isBranch: boolean): void => {
    const parts = split(tokens, from, to, depth, ["and", "or"])
    for (const part of parts) {
      const joint = tokens[part.to]?.text === "or" || tokens[part.from - 1]?.text === "or" ? "false" : "true"
      put("condition", part.from, part.to, joint)
    }
    if (parts.length === 1 && isBranch) put("condition", from, to, "false")
  }
  const assigned = new Set<number>()
  const begin = tokens.findIndex(({ text }) => text === "begin")
  tokens.forEach(({ depth, text }, index) => {
    const [before, next] = [tokens[index - 1]?.text ?? "", tokens[index + 1]?.text ?? ""]
    if (text === "set") {
      const to = endOf(tokens, index + 1, depth, ending)
      const items = split(tokens, index + 1, to, depth, [","])
      for (const item of items) {
        const at = tokens.findIndex((token, place) => place >= item.from && token.text === "=" && token.depth === depth)
        assigned.add(at)
        const isLast = item.to === to
        if (items.length > 1) put("assignment", isLast ? item.from - 1 : item.from, isLast ? item.to : item.to + 1, "")
      }
    } else if (text === ":=" && tokens[index - 1]?.depth === depth) {
      const start = tokens.findLastIndex(
        (token, place) => place < index && /^(;|then|else|loop|begin)$/.test(token.text),
      )
      if (start >= begin) put("assignment", start + 1, endOf(tokens, index, depth, new Set([";"])), "NULL")
    } else if (
      conditionOf.has(text) &&
      !/^(conflict|constraint)$/.test(next) &&
      before !== "exception" &&
      `${before} ${text}` !== "end if"
    ) {
      conditions(index + 1, endOf(tokens, index + 1, depth, ending), depth, /^(when|if|elsif)$/.test(text))
    } else if (text === "(" && next !== "select" && before !== "values") {
      const to = endOf(tokens, index + 1, depth, new Set())
      if (split(tokens, index + 1, to, depth, ["and", "or"]).length > 1) conditions(index + 1, to, depth, false)
    } else if (text === "by" && before === "order") {
      for (const item of split(tokens, index + 1, endOf(tokens, index + 1, depth, ending), depth, [","]))
        if (!/^(asc|desc)$/.test(tokens[item.to - 1]?.text ?? ""))
          put("order", item.from, item.to, `${textOf(item.from, item.to)} desc`)
    } else if (text === "limit") {
      const to = endOf(tokens, index + 1, depth, ending)
      put("limit", index + 1, to, `${textOf(index + 1, to)} + 1`)
    } else if ((text === "coalesce" || text === "nullif") && next === "(") {
      const to = endOf(tokens, index + 2, depth + 1, new Set())
      const [first] = split(tokens, index + 2, to, depth + 1, [","])
      if (first !== undefined) put(text, index, to + 1, `(${textOf(first.from, first.to)})`)
    }
    if (text === "exists" && before !== "not") put("exists", index, index + 1, "not exists")
    if (text === "not" && !/^(null|materialized)$/.test(next) && before !== "is") put("not", index, index + 1, "")
    if (text === "is" && next !== "(")
      put("is", index, next === "not" ? index + 2 : index + 1, next === "not" ? "is" : "is not")
    if (text === "and" || text === "or") put(text, index, index + 1, text === "and" ? "or" : "and")
    if (/^[+-]$/.test(text) && isOperand(tokens[index - 1]) && next !== "")
      if (next === "1") put("one", index + 1, index + 2, "0")
      else put("arithmetic", index, index + 1, text === "+" ? "-" : "+")
    const swapped = swaps[text]
    if (swapped === undefined || assigned.has(index) || (text.startsWith("m") && next !== "(")) return
    put("swap", index, index + 1, swapped)
  })
  const seen = new Set<string>()
  return found
    .filter(({ by, end, start }) => {
      const key = `${start} ${end} ${by}`
      return seen.has(key) ? false : seen.add(key) !== undefined
    })
    .sort((a, b) => a.start - b.start || a.end - b.end)
}

export const applied = (sql: string, { by, end, start }: SqlMutant): string =>
  `${sql.slice(0, start)}${by}${sql.slice(end)}`
