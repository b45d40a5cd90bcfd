import * as Effect from "effect/Effect"
import * as CliOutput from "effect/cli/CliOutput"
import type { ProcessIo } from "./ProcessIo.ts"

const formatter = CliOutput.defaultFormatter({ colors: process.stdout.isTTY && process.env["NO_COLOR"] === undefined })

/**
 * Writes help, versions and usage errors. The default of `effect/cli` prints the complete help to standard output after a
 * usage error, but `--json` promises a document or nothing.
 */
export const makePresenter = ({ write, writeError }: ProcessIo): CliOutput.Presenter => ({
  present: (event) => {
    switch (event._tag) {
      case "Help":
        return line(event.reason === "Requested" ? write : writeError, formatter.formatHelpDoc(event.helpDoc))
      case "Version":
        return line(write, `${event.name} ${event.version}`)
      case "InvalidInvocation": {
        const problems = event.errors.map((error) => `kiln: ${formatter.formatCliError(error)}`)
        const hint = `usage: ${event.helpDoc.usage}\n(see ${event.commandPath.join(" ")} --help)`
        return line(writeError, [...problems, hint].join("\n"))
      }
    }
  },
})

const line = (write: (text: string) => void, text: string) => Effect.sync(() => write(`${text}\n`))
