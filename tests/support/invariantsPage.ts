/** The names of what somebody states, by where it is. */
export interface Held {
  /** From the repository's root; `undefined` for the simulation. */
  readonly file: string | undefined
  readonly names: ReadonlyArray<string>
}

export interface PromiseRow {
  readonly number: number
  readonly held: ReadonlyArray<Held>
  /** What no test holds yet. */
  readonly open: ReadonlyArray<string>
  /** Parts of the row that contain no such entry. */
  readonly unreadable: ReadonlyArray<string>
}

export interface InvariantsPage {
  readonly promises: ReadonlyArray<PromiseRow>
  /** Promises listed as open again, as `number: reason`. */
  readonly open: ReadonlyArray<string>
  /** Names of the simulation's invariants. */
  readonly invariants: ReadonlyArray<string>
  /** States that it must reach. */
  readonly reached: ReadonlyArray<string>
}

/** The text below a heading, up to the next one of any level. */
const below = (text: string, heading: string): string => {
  const [, body = ""] = text.split(`\n${heading}\n`)
  return body.split(/^#{1,6} /m)[0] ?? ""
}

const rowsOf = (text: string): ReadonlyArray<ReadonlyArray<string>> =>
  [...text.matchAll(/^\| (.*) \|$/gm)].map(([, cells = ""]) => cells.split(" | "))

const namesIn = (text: string): ReadonlyArray<string> => [...text.matchAll(/“([^”]+)”/g)].map(([, name = ""]) => name)

const promiseRow = ([number = "", , held = ""]: ReadonlyArray<string>): PromiseRow => {
  const parts = held.split("<br>").map((part) => {
    const [, open] = /^\*\*Open:\*\* (.+)$/.exec(part) ?? []
    if (open !== undefined) return { part, open }
    const [, file, names] = /^\*[\w ]+\*(?: \[[\w.]+\]\(\.\.\/([^)]+)\))?((?:,? “[^”]+”)+)$/.exec(part) ?? []
    return names === undefined ? { part } : { part, held: { file, names: namesIn(names) } }
  })
  return {
    number: Number(number),
    held: parts.flatMap((part) => part.held ?? []),
    open: parts.flatMap((part) => part.open ?? []),
    unreadable: parts.flatMap((part) => (part.held === undefined && part.open === undefined ? [part.part] : [])),
  }
}

/** Reads docs/invariants.md. */
export const parseInvariantsPage = (text: string): InvariantsPage => ({
  promises: rowsOf(text)
    .filter(([first = ""]) => /^\d+$/.test(first))
    .map(promiseRow),
  open: [...below(text, "## Not yet tested").matchAll(/^- \*\*(\d+)\*\*: (.+)$/gm)].map(
    ([, number, reason]) => `${number}: ${reason}`,
  ),
  invariants: rowsOf(below(text, "### What it checks"))
    .slice(1)
    .map(([name = ""]) => name),
  reached: [...below(text, "### What it must reach").matchAll(/^- (.+)$/gm)].flatMap(([, bullet = ""]) => {
    const [, kind, list = ""] = /^(event|LeaseLost|failed): (.+)$/.exec(bullet) ?? []
    return kind === undefined ? [bullet] : list.split(", ").map((one) => `${kind}: ${one}`)
  }),
})

/** What the page is held against. */
export interface Reality {
  /** Returns the text of a file, or `undefined` if it does not exist. */
  readonly read: (path: string) => string | undefined
  /** How many promises there are, numbered from 1. */
  readonly promises: number
  readonly invariants: ReadonlyArray<string>
  readonly reached: ReadonlyArray<string>
}

/** Returns every difference between the page and the repository, as sentences. */
export const pageProblems = (text: string, reality: Reality): ReadonlyArray<string> => {
  const page = parseInvariantsPage(text)
  return [
    ...numberProblems(page, reality.promises),
    ...page.promises.flatMap((row) => rowProblems(row, reality)),
    ...differences("the list of what is open", page.open, page.promises.flatMap(openLines)),
    ...differences("the simulation's invariants", page.invariants, reality.invariants),
    ...differences("the states it must reach", page.reached, reality.reached),
  ]
}

const openLines = ({ number, open }: PromiseRow): ReadonlyArray<string> => open.map((reason) => `${number}: ${reason}`)

const numberProblems = ({ promises }: InvariantsPage, count: number): ReadonlyArray<string> => {
  const numbers = promises.map(({ number }) => number)
  return Array.from({ length: Math.max(count, ...numbers) }, (_, index) => index + 1).flatMap((number) => {
    const times = numbers.filter((one) => one === number).length
    const expected = number <= count ? 1 : 0
    return times === expected ? [] : [`promise ${number} is there ${times} times`]
  })
}

const rowProblems = ({ held, number, open, unreadable }: PromiseRow, reality: Reality): ReadonlyArray<string> => [
  ...unreadable.map((part) => `promise ${number}: cannot read ${JSON.stringify(part)}`),
  ...(held.length + open.length === 0 ? [`promise ${number}: neither held nor open`] : []),
  ...held.flatMap(({ file, names }) => {
    if (file === undefined)
      return names
        .filter((name) => !reality.invariants.includes(name))
        .map((name) => `promise ${number}: the simulation checks no “${name}”`)
    const source = reality.read(file)
    if (source === undefined) return [`promise ${number}: there is no ${file}`]
    return names.filter((name) => !source.includes(name)).map((name) => `promise ${number}: ${file} has no “${name}”`)
  }),
]

const differences = (what: string, page: ReadonlyArray<string>, real: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...page.filter((one, index) => page.indexOf(one) !== index).map((one) => `${what}: “${one}” is there twice`),
  ...real.filter((one) => !page.includes(one)).map((one) => `${what}: “${one}” is missing`),
  ...page.filter((one) => !real.includes(one)).map((one) => `${what}: “${one}” is nowhere else`),
]
