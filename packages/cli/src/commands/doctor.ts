import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { failed } from "../CommandFailed.ts"
import { checkDocument, checkLines } from "../doctor/checkReport.ts"
import { answer } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"

export const doctorCommand = Command.make("doctor", {}, () =>
  Effect.gen(function* () {
    const { examine } = yield* Effect.tryPromise({
      try: () => import("../doctor/examine.ts"),
      catch: (cause) => failed(`cannot load the doctor: ${String(cause)}`),
    })
    const checks = yield* examine((yield* ProcessIo).environment)
    const wrong = checks.filter(({ status }) => status === "problem")
    yield* answer({
      json: {
        ok: wrong.length === 0,
        checks: checks.map(checkDocument),
      },
      text: checkLines(checks),
    })
    if (wrong.length > 0) return yield* failed(`problems found: ${wrong.map(({ name }) => name).join(", ")}`)
  }),
).pipe(
  Command.withDescription("Check settings, database, schema and every stored file; exits with 1 if there are problems"),
)
