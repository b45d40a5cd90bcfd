import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { JobStore, type LedgerPage } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
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

const writeLedger = Effect.fnUntraced(function* (range: Pick<LedgerPage, "from" | "to">, format: BillingFormat) {
  const store = yield* JobStore
  let after: LedgerPage["after"] = null
  // With the first page, so that nothing is written where the ledger cannot be read.
  let header = format.header
  while (true) {
    const page: Effect.Success<ReturnType<typeof store.listCharges>> = yield* store.listCharges({
      ...range,
      after,
      limit: pageSize,
    })
    const text = header + page.map(format.entry).join("")
    if (text !== "") yield* writeOut(text)
    header = ""
    after = page.at(-1) ?? null
    if (page.length < pageSize || after === null) return
  }
})

export const billingExport = Command.make("export", flags, ({ format, ...given }) =>
  Effect.gen(function* () {
    const from = yield* momentOf("from", given.from)
    const to = yield* momentOf("to", given.to)
    if (from > to) return yield* misused("--from must not be later than --to")
    // A reader that has enough, like `head`, is no failure.
    yield* withStores(
      Effect.catchTag(writeLedger({ from, to }, billingFormats[format]), "ReaderGone", () => Effect.void),
    )
  }),
).pipe(
  Command.withDescription("Write what was charged in a period to standard output, in its own format also with --json"),
  Command.withExamples([
    { command: "kiln billing export --from 2026-11-01 --to 2026-12-01 --format csv", description: "November" },
  ]),
)
