import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flag from "effect/cli/Flag"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Decimal, type SpendCap, type Spending, type SpendOwner, spendPeriods } from "@kiln/core/domain"
import { KeyDirectory, Switchboard } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable } from "../Output.ts"
import { always, recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { findProject } from "../findProject.ts"

const amountFlag = (period: (typeof spendPeriods)[number]) =>
  Flag.String(period).pipe(
    Flag.withDescription(
      `The most that live jobs may cost in a calendar ${period} of UTC, as a plain decimal; none for no cap`,
    ),
    Flag.withMetavar("AMOUNT"),
    Flag.optional,
  )

/** The flags of `project cap` and `key cap`. Without any, the command only shows caps. */
const spendCapFlags = {
  day: amountFlag("day"),
  month: amountFlag("month"),
  currency: Flag.String("currency").pipe(
    Flag.withDescription("Lower-case ISO 4217; by default that of the present cap, or usd"),
    Flag.optional,
  ),
  clear: Flag.Boolean("clear").pipe(Flag.withDescription("Remove the cap"), Flag.withDefault(false)),
}

interface Given {
  readonly day: Option.Option<string>
  readonly month: Option.Option<string>
  readonly currency: Option.Option<string>
  readonly clear: boolean
}

const amountOf = Effect.fnUntraced(function* (
  period: (typeof spendPeriods)[number],
  given: Option.Option<string>,
  present: string | null,
) {
  if (Option.isNone(given)) return present
  if (given.value === "none") return null
  const amount = Decimal.tryParse(given.value)
  return amount === undefined
    ? yield* misused(`--${period} must be a plain decimal like 25 or 0.50, or none`)
    : Decimal.format(amount)
})

/** Returns the cap to set, `null` to remove it, or `undefined` if the flags change nothing. */
const changeOf = Effect.fnUntraced(function* (given: Given, present: SpendCap | undefined) {
  const changes = [given.day, given.month, given.currency].some(Option.isSome)
  if (given.clear) return changes ? yield* misused("--clear goes with no other flag") : null
  if (!changes) return undefined
  const day = yield* amountOf("day", given.day, present?.day ?? null)
  const month = yield* amountOf("month", given.month, present?.month ?? null)
  const currency = Option.getOrElse(given.currency, () => present?.currency ?? "usd")
  if (!/^[a-z]{3}$/.test(currency)) return yield* misused("--currency must be a lower-case ISO 4217 code like usd")
  if (day === null && month === null)
    return present === undefined ? yield* misused("a cap needs --day or --month") : null
  return { currency, day, month } satisfies SpendCap
})

/** An owner whose cap is shown or changed. */
export interface NamedOwner {
  readonly id: SpendOwner
  readonly name: string
}

const fieldsOf = ({ id }: NamedOwner, spending: Spending | undefined) => ({
  [id.startsWith("key_") ? "key_id" : "project_id"]: id,
  currency: spending?.cap.currency ?? null,
  day: spending?.cap.day ?? null,
  month: spending?.cap.month ?? null,
  spent_today: spending?.day ?? null,
  spent_this_month: spending?.month ?? null,
  reserved: spending?.reserved ?? null,
})

const table = (
  heading: string,
  owners: ReadonlyArray<NamedOwner>,
  all: ReadonlyMap<SpendOwner, Spending>,
  empty: string,
) =>
  formatTable(
    [heading, "CURRENCY", "DAY", "SPENT TODAY", "MONTH", "SPENT THIS MONTH", "RESERVED"],
    owners.flatMap(({ id, name }) => {
      const spending = all.get(id)
      if (spending === undefined) return []
      const { cap, reserved, ...spent } = spending
      return [[name, cap.currency, cap.day ?? "no cap", spent.day, cap.month ?? "no cap", spent.month, reserved]]
    }),
    empty,
  )

const readSpending = Effect.gen(function* () {
  const all = yield* (yield* Switchboard).listSpending
  return new Map(all.map((spending) => [spending.owner, spending]))
})

/** Lists the caps of these owners. */
const listCaps = Effect.fnUntraced(function* (
  kind: "project" | "key",
  owners: ReadonlyArray<NamedOwner>,
  given: Given,
) {
  if ((yield* changeOf(given, undefined)) !== undefined) return yield* misused(`which ${kind}? The flags change one`)
  const all = yield* readSpending
  const capped = owners.filter(({ id }) => all.has(id))
  yield* answer({
    json: { caps: capped.map((owner) => fieldsOf(owner, all.get(owner.id))) },
    text: table(kind.toUpperCase(), capped, all, `no ${kind} has a spend cap`),
  })
})

/** Shows, sets or removes the cap of one owner. */
const capOwner = Effect.fnUntraced(function* (kind: "project" | "key", owner: NamedOwner, given: Given) {
  const present = (yield* readSpending).get(owner.id)
  const cap = yield* changeOf(given, present?.cap)
  if (cap !== undefined) {
    const details = cap === null ? {} : { currency: cap.currency, day: cap.day, month: cap.month }
    const action = cap === null ? `${kind}.cap.clear` : `${kind}.cap.set`
    yield* (yield* Switchboard)
      .setSpendCap(owner.id, cap)
      .pipe(recordChange({ action, subject: owner.id, details }, always))
  }
  const all = yield* readSpending
  const spending = all.get(owner.id)
  const over = spending === undefined ? [] : spendPeriods.filter((period) => isOver(spending, period))
  yield* answer({
    json: fieldsOf(owner, spending),
    text: [
      table(kind.toUpperCase(), [owner], all, `${owner.name} has no spend cap`),
      ...over.map((period) => `\nmore than the cap was spent or reserved this ${period}: live jobs are refused`),
    ].join("\n"),
  })
})

const isOver = ({ cap, reserved, ...spent }: Spending, period: (typeof spendPeriods)[number]): boolean => {
  const amount = cap[period]
  if (amount === null) return false
  const counted = Decimal.add(Decimal.parse(spent[period]), Decimal.parse(reserved))
  return Decimal.compare(counted, Decimal.parse(amount)) > 0
}

const id = Argument.String("KEY_ID").pipe(
  Argument.withDescription("The key's id, from `kiln key list`; without it, all caps of keys are listed"),
  Argument.optional,
)

export const keyCap = Command.make("cap", { id, ...spendCapFlags }, ({ id: wanted, ...given }) =>
  withStores(
    Effect.gen(function* () {
      const keys = (yield* (yield* KeyDirectory).listKeys).map((key) => ({ id: key.id, name: key.id }))
      if (Option.isNone(wanted)) return yield* listCaps("key", keys, given)
      const key = keys.find((known) => known.id === wanted.value)
      if (key === undefined) return yield* failed(`there is no key ${wanted.value}: see kiln key list`)
      yield* capOwner("key", key, given)
    }),
  ),
).pipe(
  Command.withDescription("Show or set the most that a key's live jobs may cost in a day and in a month (UTC)"),
  Command.withExamples([
    { command: "kiln key cap KEY_ID --day 5", description: "In US dollars" },
    { command: "kiln key cap KEY_ID --clear" },
  ]),
)

const project = Argument.String("PROJECT").pipe(
  Argument.withDescription("Name or id of the project; without it, all caps of projects are listed"),
  Argument.optional,
)

export const projectCap = Command.make("cap", { project, ...spendCapFlags }, ({ project: nameOrId, ...given }) =>
  withStores(
    Effect.gen(function* () {
      if (Option.isSome(nameOrId)) return yield* capOwner("project", yield* findProject(nameOrId.value), given)
      yield* listCaps("project", yield* (yield* KeyDirectory).listProjects, given)
    }),
  ),
).pipe(
  Command.withDescription("Show or set the most that a project's live jobs may cost in a day and in a month (UTC)"),
  Command.withExamples([
    { command: "kiln project cap default --day 25 --month 400", description: "In US dollars" },
    { command: "kiln project cap default --day none", description: "Keep only the cap of the month" },
    { command: "kiln project cap default --clear" },
  ]),
)
