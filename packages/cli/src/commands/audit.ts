import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { AuditLog } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { withStores } from "../withStores.ts"
import { momentOf } from "./billingMoment.ts"

const mostEntries = 1_000

const flags = {
  from: Flag.String("from").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only changes at this time or later: 2026-11-01 (midnight in UTC) or RFC 3339"),
    Flag.optional,
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("DATE"),
    Flag.withDescription("Only changes before this time"),
    Flag.optional,
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription(`Maximum number of changes, 1 to ${mostEntries}`),
    Flag.withDefault(50),
  ),
  after: Flag.Int("after").pipe(
    Flag.withMetavar("NUMBER"),
    Flag.withDescription("Continue after the list that ended with this number"),
    Flag.optional,
  ),
}

const list = Command.make("list", flags, (given) =>
  withStores(
    Effect.gen(function* () {
      const { limit } = given
      if (limit < 1 || limit > mostEntries) return yield* misused(`--limit must be from 1 to ${mostEntries}`)
      const from = Option.isNone(given.from) ? 0 : yield* momentOf("from", given.from.value)
      const to = Option.isNone(given.to) ? Number.MAX_SAFE_INTEGER : yield* momentOf("to", given.to.value)
      // One more than requested tells whether others follow.
      const page = { from, to, after: Option.getOrNull(given.after), limit: limit + 1 }
      const found = yield* (yield* AuditLog).list(page)
      const entries = found.slice(0, limit)
      const next = found.length > limit ? (entries.at(-1)?.number ?? null) : null
      const table = formatTable(
        ["TIME", "WHO", "FROM", "ACTION", "SUBJECT", "DETAILS"],
        entries.map(({ action, actor, at, details, origin, subject }) => [
          formatTime(at),
          actor,
          origin,
          action,
          subject,
          Object.keys(details).length === 0 ? "" : JSON.stringify(details),
        ]),
        "no such changes",
      )
      yield* answer({
        json: {
          changes: entries.map(({ at, ...entry }) => ({ ...entry, at: formatTime(at) })),
          next,
        },
        text: next === null ? table : `${table}\n\nThere are more: continue with --after ${next}`,
      })
    }),
  ),
).pipe(
  Command.withDescription("List administrative changes, newest first, with the user, the time and the host of each"),
)

export const auditCommand = Command.make("audit").pipe(
  Command.withDescription("Show the log of administrative changes"),
  Command.withSubcommands([list]),
)
