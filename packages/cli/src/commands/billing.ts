import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { JobStore, type LedgerPage } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { Json, writeOut } from "../Output.ts"
import { withStores } from "../withStores.ts"
import { type BillingFormat, billingFormats } from "./billingFormats.ts"
import { momentOf } from "./billingMoment.ts"

/** Entries read and written per page, which bounds the memory for any period. */
const pageSize = 500

// Neither end has a default, so that a bill never covers an unintended period.
const flags = {
  from: Flag.String("from").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Start of the period, inclusive: 2026-11-01 (midnight in UTC) or RFC 3339"),
  ),
  to: Flag.String("to").pipe(Flag.withMetavar("DATE"), Flag.withDescription("End of the period, exclusive")),
  format: Flag.Literals("format", ["csv", "jsonl"]).pipe(
    Flag.withDescription("jsonl: one object per job; csv: one row per line item"),
    Flag.withDefault("jsonl" as const),
  ),
}

/** Writes the ledger. Returns the end of the export: `to`, or the time up to which the ledger is complete according to the first page. */
const writeLedger = Effect.fnUntraced(function* ({ from, to }: Pick<LedgerPage, "from" | "to">, format: BillingFormat) {
  const store = yield* JobStore
  const first = yield* store.listCharges({ from, to, after: null, limit: pageSize })
  // Together with the first page, so that nothing is written if the ledger cannot be read.
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

/** Formats a time with milliseconds, as accepted by `--from`. */
const momentText = (moment: number): string => new Date(moment).toISOString()

/** Reports the end on standard error, because standard output is for the export. With `--json`, it is always reported. */
const sayEnd = Effect.fnUntraced(function* (to: number, until: number) {
  const end = momentText(until)
  if (yield* Json) return yield* note(JSON.stringify({ until: end, complete: until >= to }))
  if (until < to)
    yield* note(`The export ends at ${end}: later charges may still be added. Begin the next export with --from ${end}`)
})

const note = (line: string) => Effect.sync(() => void process.stderr.write(`${line}\n`))

const billingExport = Command.make("export", flags, ({ format, ...given }) =>
  Effect.gen(function* () {
    const from = yield* momentOf("from", given.from)
    const to = yield* momentOf("to", given.to)
    if (from > to) return yield* misused("--from must not be later than --to")
    // A reader that stops early, like `head`, is not a failure.
    yield* withStores(
      writeLedger({ from, to }, billingFormats[format]).pipe(
        Effect.flatMap((until) => sayEnd(to, until)),
        Effect.catchTag("ReaderGone", () => Effect.void),
      ),
    )
  }),
).pipe(
  Command.withDescription("Write the charges of a period to standard output; --format applies even with --json"),
  Command.withExamples([
    { command: "kiln billing export --from 2026-11-01 --to 2026-12-01 --format csv", description: "November" },
  ]),
)

export const billingCommand = Command.make("billing").pipe(
  Command.withDescription("Read the ledger of live jobs"),
  Command.withSubcommands([billingExport]),
)
