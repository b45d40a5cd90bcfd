import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { JobStore, type LedgerPage } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { Json } from "../Output.ts"
import { withStores } from "../withStores.ts"
import { type BillingFormat, billingFormats } from "./billingFormats.ts"
import { momentOf } from "./billingMoment.ts"
import { writeOut } from "./billingOutput.ts"

/** Entries read and written at once: that much is in memory, however long the period is. */
const pageSize = 500

// Neither end has a default: a bill for a period that nobody named would pass for the one that was meant.
const flags = {
  from: Flag.String("from").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Beginning of the period, inclusive: 2026-11-01 (midnight in UTC) or RFC 3339"),
  ),
  to: Flag.String("to").pipe(Flag.withMetavar("DATE"), Flag.withDescription("End of the period, exclusive")),
  format: Flag.Literals("format", ["csv", "jsonl"]).pipe(
    Flag.withDescription("jsonl has an object for each job, csv a row for each line item"),
    Flag.withDefault("jsonl" as const),
  ),
}

/** Answers where the export ends: at `to`, or where the first page says that the ledger is complete. */
const writeLedger = Effect.fnUntraced(function* ({ from, to }: Pick<LedgerPage, "from" | "to">, format: BillingFormat) {
  const store = yield* JobStore
  const first = yield* store.listCharges({ from, to, after: null, limit: pageSize })
  // With the first page, so that nothing is written where the ledger cannot be read.
  let header = format.header
  for (let page = first.entries; ;) {
    const text = header + page.map(format.entry).join("")
    if (text !== "") yield* writeOut(text)
    header = ""
    const after = page.at(-1)
    if (after === undefined || page.length < pageSize) return Math.max(from, first.until)
    page = (yield* store.listCharges({ from, to: first.until, after, limit: pageSize })).entries
  }
})

/** With milliseconds, as `--from` takes them. */
const momentText = (moment: number): string => new Date(moment).toISOString()

/** On standard error, because standard output belongs to the export. Programs read it with `--json`, whatever the end is. */
const sayEnd = Effect.fnUntraced(function* (to: number, until: number) {
  const end = momentText(until)
  if (yield* Json) return yield* note(JSON.stringify({ until: end, complete: until >= to }))
  if (until < to)
    yield* note(`The export ends at ${end}: later charges may still be added. Begin the next export with --from ${end}`)
})

const note = (line: string) => Effect.sync(() => void process.stderr.write(`${line}\n`))

export const billingExport = Command.make("export", flags, ({ format, ...given }) =>
  Effect.gen(function* () {
    const from = yield* momentOf("from", given.from)
    const to = yield* momentOf("to", given.to)
    if (from > to) return yield* misused("--from must not be later than --to")
    // A reader that has enough, like `head`, is no failure.
    yield* withStores(
      writeLedger({ from, to }, billingFormats[format]).pipe(
        Effect.flatMap((until) => sayEnd(to, until)),
        Effect.catchTag("ReaderGone", () => Effect.void),
      ),
    )
  }),
).pipe(
  Command.withDescription("Write what was charged in a period to standard output, in its own format also with --json"),
  Command.withExamples([
    { command: "kiln billing export --from 2026-11-01 --to 2026-12-01 --format csv", description: "November" },
  ]),
)
