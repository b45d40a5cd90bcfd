import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { failed } from "../CommandFailed.ts"
import type { Check } from "../doctor/Check.ts"
import { answer } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"

const words: Readonly<Record<Check["status"], string>> = {
  ok: "ok",
  warning: "note",
  problem: "WRONG",
  skipped: "-",
}

const lineOf = ({ findings, name, status, summary }: Check, width: number): string =>
  [
    `${words[status].padEnd(5)}  ${name.padEnd(width)}  ${summary}`,
    ...findings.map(({ message }) => `         ${message}`),
  ].join("\n")

export const doctorCommand = Command.make("doctor", {}, () =>
  Effect.gen(function* () {
    const { examine } = yield* Effect.tryPromise({
      try: () => import("../doctor/examine.ts"),
      catch: (cause) => failed(`cannot load the doctor: ${String(cause)}`),
    })
    const checks = yield* examine((yield* ProcessIo).environment)
    const wrong = checks.filter(({ status }) => status === "problem")
    const width = Math.max(...checks.map(({ name }) => name.length))
    yield* answer({
      json: {
        ok: wrong.length === 0,
        checks: checks.map(({ findings, name, status, summary }) => ({
          name,
          status,
          summary,
          findings: findings.map(({ details, message }) => ({ message, ...details })),
        })),
      },
      text: checks.map((check) => lineOf(check, width)).join("\n"),
    })
    if (wrong.length > 0) return yield* failed(`problems found: ${wrong.map(({ name }) => name).join(", ")}`)
  }),
).pipe(
  Command.withDescription("Check settings, database, schema and every stored file; exits with 1 if there are problems"),
)
