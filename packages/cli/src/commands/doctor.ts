import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { failed, misused } from "../CommandFailed.ts"
import { checkDocument, checkLines } from "../doctor/checkReport.ts"
import { answer } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { duration } from "../settings/duration.ts"

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
}

export const doctorCommand = Command.make("doctor", flags, ({ limit, strict }) =>
  Effect.gen(function* () {
    const parsed = duration(limit)
    if (!parsed.ok) return yield* misused(`--limit ${parsed.rule}`)
    const { examine } = yield* Effect.tryPromise({
      try: () => import("../doctor/examine.ts"),
      catch: (cause) => failed(`cannot load the doctor: ${String(cause)}`),
    })
    const checks = yield* examine((yield* ProcessIo).environment, { limitMs: parsed.value })
    const wrong = checks.filter(({ status }) => status === "problem" || (strict && status === "warning"))
    yield* answer({
      json: { ok: wrong.length === 0, checks: checks.map(checkDocument) },
      text: checkLines(checks),
    })
    if (wrong.length > 0) return yield* failed(`problems found: ${wrong.map(({ name }) => name).join(", ")}`)
  }),
).pipe(
  Command.withDescription(
    "Check settings, machine, address, database, queue and every stored file, and say how to fix what is wrong; exits with 1 if there are problems",
  ),
)
