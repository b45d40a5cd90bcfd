// Runs the mutants of SQL statements for scripts/mutation.ts, as a test file: the checks of the conformance suite that reach a statement, those
// that detected most mutants first, and then random histories. A mutant is killed by the first that fails. Each result is a line of
// KILN_MUTATION_LOG, from which an interrupted run goes on.
import { createHash } from "node:crypto"
import { appendFileSync, readFileSync, utimesSync } from "node:fs"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { expect, test } from "vitest"
import { findDifference, storeSections, type Stores } from "@kiln/conformance"
import { type SqlMutant, sqlMutantsOf } from "./sqlMutants.ts"
import { postgresSubject } from "./postgresSubject.ts"
import { sqliteSubject } from "./sqliteSubject.ts"
import type { Subject } from "./Subject.ts"

export type Part = "create" | "claim" | "end"

/** The sections of the conformance suite about a part, which come first. */
const sectionsOf: Readonly<Record<Part, RegExp>> = {
  create: /JobStore.*(create|spend|retr|unique|replac|delay|metadata)/i,
  claim: /JobStore.*(claim|fair|limit|prior|slot|version|lost|extend)/i,
  end: /JobStore.*(complete|fail|fenc|defer|release|signal|park|cancel|expire)/i,
}

export interface Wanted {
  readonly store: "sqlite" | "postgres"
  /** Source files, without their extension, and functions, by what they do. */
  readonly names: Readonly<Record<Part, ReadonlyArray<string>>>
  /** Maximum number of checks for one mutant. */
  readonly checks: number
  readonly sample: number
  readonly seed: number
  readonly histories: number
}

interface Line {
  readonly id: string
  readonly kind: string
  readonly change: string
  readonly outcome: "begun" | "killed" | "survived" | "invalid"
  readonly by?: string
}

const wanted = JSON.parse(process.env["KILN_MUTATION_STATEMENTS"] ?? "{}") as Wanted
const log = process.env["KILN_MUTATION_LOG"] ?? ""

/** More than a check takes on a busy machine. */
const limitMs = 30_000

const { checks: mostChecks, histories, names: namesOf, sample, seed, store } = wanted
const names = Object.values(namesOf).flat()

const partOf = (name: string): Part => {
  const is = (part: Part): boolean => namesOf[part].includes(name.split(" ")[0] ?? "")
  return is("create") ? "create" : is("claim") ? "claim" : "end"
}

/** Most mutants that are planted together. */
const groupSize = 55

interface Mutant extends Pick<Line, "id"> {
  readonly name: string
  readonly part: Part
  readonly text: string
  readonly change: SqlMutant
  readonly shown: Pick<Line, "id" | "kind" | "change">
}

interface SuiteCheck {
  readonly name: string
  readonly section: string
  readonly run: Effect.Effect<void, unknown, Stores>
  readonly kills: Record<Part, number>
  /** The names of the texts that it reaches. */
  reaches: ReadonlySet<string>
}

/** Shuffles by the seed. The place of each depends on its name alone, so others may come and go. */
const shuffled = <A>(items: ReadonlyArray<A>, nameOf: (item: A) => string): ReadonlyArray<A> =>
  items
    .map((item) => ({
      item,
      place: createHash("sha256")
        .update(`${seed} ${nameOf(item)}`)
        .digest("hex"),
    }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ item }) => item)

const contextOf = (text: string, { by, end, start }: SqlMutant): string => {
  const around = (from: number, to: number) => text.slice(Math.max(0, from), to).replaceAll(/\s+/g, " ")
  return `${around(start - 60, start)}«${around(start, end)} → ${by}»${around(end, end + 30)}`
}

const write = (line: Line): void => appendFileSync(log, `${JSON.stringify(line)}\n`)

const linesOf = (): ReadonlyMap<string, Line> => {
  const lines = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line !== "")
  return new Map(lines.map((line) => JSON.parse(line) as Line).map((line) => [line.id, line]))
}

const mutantsOf = (texts: ReadonlyMap<string, string>): ReadonlyArray<Mutant> =>
  [...texts]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([name, text]) =>
      sqlMutantsOf(text).map((change, index) => ({
        id: `${name} ${index}`,
        name,
        text,
        change,
        part: partOf(name),
        shown: { id: `${name} ${index}`, kind: change.kind, change: contextOf(text, change) },
      })),
    )

/** The checks of the suite, on a store in which mutants are planted. */
const makeSuite = (subject: Subject) => {
  const checks: ReadonlyArray<SuiteCheck> = storeSections.flatMap((section) =>
    section.checks.map(({ name, run }) => ({
      name: `${section.name}: ${name}`,
      section: section.name,
      run,
      kills: { create: 0, claim: 0, end: 0 },
      reaches: new Set<string>(),
    })),
  )
  const passes = async (run: SuiteCheck["run"]): Promise<boolean> => {
    utimesSync(log, new Date(), new Date())
    const onStore = Effect.scoped(Effect.flatMap(subject.place, (layer) => Effect.provide(run, Layer.fresh(layer))))
    const signal = AbortSignal.timeout(limitMs)
    const ended = Effect.runPromiseExit(onStore.pipe(Effect.provide(TestClock.layer())), { signal })
    // What is interrupted may still wait for its database.
    const late = new Promise<undefined>((resolve) => void setTimeout(resolve, limitMs + 10_000))
    const exit = await Promise.race([ended, late])
    return exit !== undefined && Exit.isSuccess(exit)
  }
  const agrees = async (runs: number): Promise<boolean> => {
    const compared = { place: subject.place, capabilities: { durable: true, multiProcess: true } } as const
    return (await findDifference({ ...compared, runs, seed: 1, shrink: false })) === undefined
  }
  const ordered = ({ name, part }: Mutant): ReadonlyArray<SuiteCheck> => {
    const isAbout = ({ section }: SuiteCheck): number => Number(sectionsOf[part].test(section))
    return shuffled(
      checks.filter(({ reaches }) => reaches.has(name)),
      (check) => check.name,
    ).toSorted((a, b) => b.kills[part] - a.kills[part] || isAbout(b) - isAbout(a))
  }
  return { checks, passes, agrees, ordered }
}

type Suite = ReturnType<typeof makeSuite>

/** Runs the first checks on one mutant. */
const judge = async (subject: Subject, suite: Suite, mutant: Mutant): Promise<Line> => {
  const { part, shown } = mutant
  if (!(await subject.plant([mutant]))) return { ...shown, outcome: "invalid" }
  for (const check of suite.ordered(mutant).slice(0, mostChecks)) {
    if (await suite.passes(check.run)) continue
    check.kills[part] += 1
    return subject.isInvalid() ? { ...shown, outcome: "invalid" } : { ...shown, outcome: "killed", by: check.name }
  }
  return (await suite.agrees(2)) ? { ...shown, outcome: "survived" } : { ...shown, outcome: "killed", by: "histories" }
}

/** Finds one of these mutants with which this fails, by halves. */
const culpritOf = async (
  subject: Subject,
  suspects: ReadonlyArray<Mutant>,
  passes: () => Promise<boolean>,
): Promise<Mutant | undefined> => {
  await subject.plant(suspects)
  if (await passes()) return undefined
  if (suspects.length < 2) return suspects[0]
  const half = Math.ceil(suspects.length / 2)
  return (
    (await culpritOf(subject, suspects.slice(0, half), passes)) ??
    (await culpritOf(subject, suspects.slice(half), passes))
  )
}

/**
 * Runs all checks on mutants that are planted together, which most pass, and where one fails, looks for those that it notices. A mutant that
 * hides another at every check lets it survive.
 */
const judgeTogether = async (subject: Subject, suite: Suite, group: ReadonlyArray<Mutant>): Promise<void> => {
  let left = group
  const judgeBy = async (by: string, passes: () => Promise<boolean>): Promise<void> => {
    for (;;) {
      const culprit = await culpritOf(subject, left, passes)
      if (culprit === undefined) return
      // It was planted alone last.
      write({ ...culprit.shown, outcome: subject.isInvalid() ? "invalid" : "killed", by })
      left = left.filter((mutant) => mutant !== culprit)
    }
  }
  await subject.plant(left)
  for (const { name, reaches, run } of suite.checks)
    if (left.some((mutant) => reaches.has(mutant.name)) && !(await suite.passes(run))) {
      await judgeBy(name, () => suite.passes(run))
      await subject.plant(left)
    }
  await judgeBy("histories", () => suite.agrees(histories))
  for (const { shown } of left) write({ ...shown, outcome: "survived", by: "all" })
}

/** Mutants that can be planted together: they change different places. */
const groupsOf = (mutants: ReadonlyArray<Mutant>): ReadonlyArray<ReadonlyArray<Mutant>> => {
  const groups: Array<Array<Mutant>> = []
  const overlap = (a: Mutant, b: Mutant): boolean =>
    a.name === b.name && a.change.start < b.change.end + 1 && b.change.start < a.change.end + 1
  for (const mutant of mutants) {
    const group = groups.find((one) => one.length < groupSize && !one.some((other) => overlap(other, mutant)))
    if (group === undefined) groups.push([mutant])
    else group.push(mutant)
  }
  return groups
}

test("mutants of statements", { timeout: 0 }, async () => {
  const subject = await (store === "sqlite" ? sqliteSubject(names) : postgresSubject(names))
  const suite = makeSuite(subject)
  for (const check of suite.checks) {
    subject.reached()
    expect(await suite.passes(check.run), check.name).toBe(true)
    check.reaches = new Set(subject.reached())
  }
  expect(await suite.agrees(histories)).toBe(true)
  const found = new Set([...subject.texts().keys()].map((name) => name.split(" ")[0]))
  expect(
    names.filter((name) => !found.has(name)),
    "names without a statement in scripts/mutation/runStatements.ts",
  ).toEqual([])
  const all = mutantsOf(subject.texts())
  const chosen = shuffled(all, ({ id }) => id).slice(0, sample)
  console.log(`${all.length} mutants of ${subject.texts().size} texts, ${chosen.length} of them chosen`)
  const known = linesOf()
  for (const mutant of chosen) {
    const { id, shown } = mutant
    // The run before did not get beyond this one: an endless loop.
    if (known.get(id)?.outcome === "begun") write({ ...shown, outcome: "killed", by: "timeout" })
    if (known.has(id)) continue
    write({ ...shown, outcome: "begun" })
    write(await judge(subject, suite, mutant))
  }
  const open = chosen.filter(({ id }) => {
    const line = linesOf().get(id)
    return line?.outcome === "survived" && line.by !== "all"
  })
  for (const group of groupsOf(open)) await judgeTogether(subject, suite, group)
})
