import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { JobDirectory, JobStore, type PublishedRule, ruleOfUploads, rulesInForce } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { answer, formatTable } from "../Output.ts"
import { appendChange } from "../recordChange.ts"
import { durationText, retention } from "../settings/SettingType.ts"
import { withStores } from "../withStores.ts"

/** The text of a period in milliseconds. */
export const periodText = (ms: number | null): string =>
  ms === null ? "kept indefinitely" : `after ${durationText(ms)}`

/** The number of running processes that have published a rule for a kind, and whether they agree. */
const saidBy = (published: ReadonlyArray<PublishedRule>) => {
  const running = published.filter(({ stoppedForMs }) => stoppedForMs === null)
  const texts = new Set(published.map(({ dataMs, jobsMs }) => `${dataMs} ${jobsMs}`))
  return { running: running.length, agree: texts.size <= 1 }
}

const noteOf = ({ agree, running }: ReturnType<typeof saidBy>): string =>
  (running === 0 ? "no process running; the last rule stays" : `${running} running`) +
  (agree ? "" : "; processes differ, and the longest counts")

/** The kinds of all jobs that there are. */
const kindsOfJobs = Effect.gen(function* () {
  const counts = yield* (yield* JobDirectory).countJobs({ finishedWithinMs: Number.MAX_SAFE_INTEGER })
  return [...new Set(counts.map(({ kind }) => kind))].sort()
})

const show = withStores(
  Effect.gen(function* () {
    const published = yield* (yield* JobStore).readRetention
    const rules = rulesInForce(published).map((rule) => ({
      ...rule,
      ...saidBy(published.filter(({ kind }) => kind === rule.kind)),
    }))
    const known = new Set(rules.map(({ kind }) => kind))
    const without = (yield* kindsOfJobs).filter((kind) => !known.has(kind))
    const uploads = rules.find(({ kind }) => kind === ruleOfUploads)
    const ofKinds = rules.filter(({ kind }) => kind !== ruleOfUploads)
    yield* answer({
      json: {
        types: ofKinds.map(({ agree, dataMs, jobsMs, kind, running }) => ({
          type: kind,
          data_ms: dataMs,
          records_ms: jobsMs,
          processes: running,
          agree,
        })),
        types_without_rule: without,
        unused_uploads: uploads === undefined ? null : { records_ms: uploads.jobsMs },
      },
      text: formatTable(
        ["TYPE", "DATA", "RECORDS", "PUBLISHED BY"],
        [
          ...ofKinds.map((rule) => [rule.kind, periodText(rule.dataMs), periodText(rule.jobsMs), noteOf(rule)]),
          ...without.map((kind) => [
            kind,
            "kept",
            "kept",
            "no process yet: start one that knows it, or kiln retention set",
          ]),
          ...(uploads === undefined ? [] : [["(unused uploads)", "", periodText(uploads.jobsMs), noteOf(uploads)]]),
        ],
        "no process has published how long jobs are kept: kiln serve does when it starts",
      ),
    })
  }),
)

export const showCommand = Command.make("show", {}, () => show).pipe(
  Command.withDescription("List how long the jobs of each type are kept, by the rules in force"),
)

const period = (name: string, what: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(`How long ${what} of finished jobs are kept: 90d, 24h, or 0 for indefinitely`),
  )

const setFlags = {
  type: Argument.String("TYPE").pipe(Argument.withDescription("A type of jobs that no running process knows")),
  data: period("data", "data and files"),
  records: period("records", "records"),
}

const milliseconds = (flag: string, text: string) => {
  const read = retention(text)
  return read.ok ? Effect.succeed(read.value === 0 ? null : read.value) : misused(`${flag} ${read.rule}`)
}

const set = ({ data, records, type }: { readonly type: string; readonly data: string; readonly records: string }) =>
  withStores(
    Effect.gen(function* () {
      const store = yield* JobStore
      const rule = {
        kind: type,
        dataMs: yield* milliseconds("--data", data),
        jobsMs: yield* milliseconds("--records", records),
      }
      if (type === ruleOfUploads) return yield* misused("TYPE must not be empty")
      const published = yield* store.readRetention
      if (published.some(({ kind, stoppedForMs }) => kind === type && stoppedForMs === null))
        return yield* misused(
          `a running process knows ${type}, and publishes how long its jobs are kept: change the kind or its settings there`,
        )
      yield* appendChange("retention.set", type, { data_ms: rule.dataMs, records_ms: rule.jobsMs })
      yield* store.publishRetention({
        publisher: `operator ${type}`,
        program: "operator",
        rules: [rule],
        ttlMs: 0,
        graceMs: 0,
      })
      yield* answer({
        json: { type, data_ms: rule.dataMs, records_ms: rule.jobsMs },
        text: `${type}: data ${periodText(rule.dataMs)}, records ${periodText(rule.jobsMs)}`,
      })
    }),
  )

export const setCommand = Command.make("set", setFlags, set).pipe(
  Command.withDescription("Set how long jobs of a type are kept that no process knows any more"),
)
