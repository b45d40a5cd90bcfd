import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { failed, misused } from "../CommandFailed.ts"
import { skipped } from "../doctor/Check.ts"
import { checkDocument, checkLine } from "../doctor/checkReport.ts"
import { checkNames, Examination, thoroughChecks } from "../doctor/Examination.ts"
import { Json, print } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { duration } from "../settings/SettingType.ts"

const flags = {
  strict: Flag.Boolean("strict").pipe(
    Flag.withDescription("Exit with 1 if there are warnings too"),
    Flag.withDefault(false),
  ),
  limit: Flag.String("limit").pipe(
    Flag.withDescription(
      "Time for each check that reads everything, like 30m; files that are left then are not verified",
    ),
    Flag.withDefault("5m"),
  ),
  quick: Flag.Boolean("quick").pipe(
    Flag.withDescription(`Leave out the checks that read everything: ${thoroughChecks.join(", ")}`),
    Flag.withDefault(false),
  ),
  only: Flag.String("only").pipe(
    Flag.withMetavar("CHECKS"),
    Flag.withDescription("Run only these checks, separated by commas, such as queue,providers"),
    Flag.withDefault(""),
  ),
}

/** Returns the wanted checks, or the first name that is not one. */
const wantedChecks = (only: string): ReadonlySet<string> | string => {
  const names = only
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
  const known: ReadonlyArray<string> = checkNames
  return names.find((name) => !known.includes(name)) ?? new Set(names.length === 0 ? known : names)
}

export const doctorCommand = Command.make("doctor", flags, ({ limit, only, quick, strict }) =>
  Effect.gen(function* () {
    const parsed = duration(limit)
    if (!parsed.ok) return yield* misused(`--limit ${parsed.rule}`)
    const wanted = wantedChecks(only)
    if (typeof wanted === "string")
      return yield* misused(`--only: there is no check ${wanted}; the checks are ${checkNames.join(", ")}`)
    const { examine } = yield* Effect.tryPromise({
      try: () => import("../doctor/examine.ts"),
      catch: (cause) => failed(`cannot load the doctor: ${String(cause)}`),
    })
    const asJson = yield* Json
    const { environment, write } = yield* ProcessIo
    const left = quick ? thoroughChecks.filter((name) => wanted.has(name)) : []
    const report: Examination["report"] = (check) => (asJson ? undefined : write(`${checkLine(check)}\n`))
    const examined = yield* Effect.provideService(examine(environment, { limitMs: parsed.value }), Examination, {
      includes: (name) => wanted.has(name) && !left.includes(name),
      report,
    })
    const skippedChecks = left.map((name) => skipped(name, "left out by --quick"))
    for (const check of skippedChecks) report(check)
    const checks = [...examined, ...skippedChecks]
    const wrong = checks.filter(({ status }) => status === "problem" || (strict && status === "warning"))
    if (asJson) yield* print(JSON.stringify({ ok: wrong.length === 0, checks: checks.map(checkDocument) }))
    if (wrong.length > 0) return yield* failed(`problems found: ${wrong.map(({ name }) => name).join(", ")}`)
  }),
).pipe(
  Command.withDescription(
    "Check settings, machine, address, database, queue and every stored file, and say how to fix what is wrong; exits with 1 if there are problems",
  ),
)
