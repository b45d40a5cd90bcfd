import * as Effect from "effect/Effect"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Flag from "effect/cli/Flag"
import * as Schema from "effect/Schema"
import { causeMessage, codesOf, type CommandFailed, failed } from "./CommandFailed.ts"
import { ProcessIo } from "./ProcessIo.ts"

/** `--json`, accepted by every command. */
export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(Flag.withDescription("Print only one JSON document"), Flag.withDefault(false)),
})

/** The reader of standard output has closed it. */
export class ReaderGone extends Schema.TaggedError<ReaderGone>()("ReaderGone", {}) {}

/** Error codes of a closed pipe or socket; the last one is for writes after that. */
const gone = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED"])

/** Writes to standard output, and waits for a slow reader. */
export const writeOut = (text: string): Effect.Effect<void, ReaderGone | CommandFailed> =>
  Effect.flatMap(ProcessIo, ({ write }) =>
    Effect.callback((resume) =>
      write(text, (error) => {
        if (error == null) return resume(Effect.void)
        const isGone = codesOf(error).some((code) => gone.has(code))
        resume(Effect.fail(isGone ? new ReaderGone() : failed(`cannot write the output: ${causeMessage(error)}`)))
      }),
    ),
  )

/**
 * Writes a result to standard output, bypassing the log. Fails if it cannot be written, as on a full disk: a secret is shown only
 * once. A reader that stops early, like `head`, is not a failure.
 */
export const print = (text: string): Effect.Effect<void, CommandFailed> =>
  Effect.catchTag(writeOut(`${text}\n`), "ReaderGone", () => Effect.void)

/** Writes a result: one JSON document with `--json`, otherwise text. */
export const answer = (result: { readonly json: object; readonly text: string }) =>
  Effect.flatMap(Json, (asJson) => print(asJson ? JSON.stringify(result.json) : result.text))

/** Formats a time as RFC 3339 in UTC with full seconds; `null` stays `null`. */
export const formatTime = <Time extends number | null>(time: Time): Time extends null ? null : string =>
  (time === null ? null : new Date(time).toISOString().replace(/\.[0-9]{3}Z$/, "Z")) as Time extends null
    ? null
    : string

/** Formats rows as aligned columns with headings; returns `empty` without rows. */
export const formatTable = (
  headings: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string | null>>,
  empty: string,
): string => {
  if (rows.length === 0) return empty
  const cells = [headings, ...rows.map((row) => row.map((cell) => cell ?? "-"))]
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => [...(row[column] ?? "")].length)))
  return cells
    .map((row) =>
      row
        .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - [...cell].length))
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}

/** `39 kB`, `1.2 MB`. */
export const sizeOf = (bytes: number): string =>
  bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
