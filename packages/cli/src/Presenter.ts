import * as Effect from "effect/Effect"
import * as CliOutput from "effect/cli/CliOutput"

const formatter = CliOutput.defaultFormatter({ colors: process.stdout.isTTY && process.env["NO_COLOR"] === undefined })
const write = (stream: NodeJS.WriteStream, text: string) => Effect.sync(() => void stream.write(`${text}\n`))

/**
 * Writes help, versions and usage errors. The default of `effect/cli` prints the complete help to standard output after a
 * usage error, but `--json` promises a document or nothing.
 */
export const presenter: CliOutput.Presenter = {
  present: (event) => {
    switch (event._tag) {
      case "Help":
        return write(
          event.reason === "Requested" ? process.stdout : process.stderr,
          formatter.formatHelpDoc(event.helpDoc),
        )
      case "Version":
        return write(process.stdout, `${event.name} ${event.version}`)
      case "InvalidInvocation": {
        const problems = event.errors.map((error) => `kiln: ${formatter.formatCliError(error)}`)
        const hint = `usage: ${event.helpDoc.usage}\n(see ${event.commandPath.join(" ")} --help)`
        return write(process.stderr, [...problems, hint].join("\n"))
      }
    }
  },
}
