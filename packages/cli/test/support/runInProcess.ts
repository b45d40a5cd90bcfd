import { expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { ProcessIo } from "../../src/ProcessIo.ts"
import { runKiln } from "../../src/program.ts"

type Environment = Readonly<Record<string, string>>

/** The output and exit code of a command. */
export interface Ran {
  readonly exit: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command as `kiln` does, but in this process: a process of its own takes a hundred times as long. */
export const runInProcess = async (
  args: ReadonlyArray<string>,
  environment: Environment = {},
  input: string = "",
): Promise<Ran> => {
  let [stdout, stderr] = ["", ""]
  const io: ProcessIo = {
    environment,
    write: (text, written) => {
      stdout += text
      written?.()
    },
    writeError: (text) => (stderr += text),
    readInput: () => Promise.resolve(input),
    inputIsTerminal: false,
  }
  const logs = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void (stderr += `${line}\n`))])
  const exit = await Effect.runPromise(runKiln(args).pipe(Effect.provideService(ProcessIo, io), Effect.provide(logs)))
  return { exit, stdout, stderr }
}

/** Runs a command with `--json` that must succeed; its standard output must be one JSON document. */
export const jsonOf = async (args: ReadonlyArray<string>, environment: Environment, input?: string) => {
  const { exit, stderr, stdout } = await runInProcess([...args, "--json"], environment, input)
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
  return JSON.parse(stdout)
}

/** Runs a command that must fail with this exit code and message, and write nothing to standard output. */
export const refusalOf = async (
  args: ReadonlyArray<string>,
  environment: Environment,
  exit: 1 | 2,
  input?: string,
): Promise<string> => {
  const ran = await runInProcess([...args, "--json"], environment, input)
  expect({ exit: ran.exit, stdout: ran.stdout }, ran.stderr).toEqual({ exit, stdout: "" })
  return ran.stderr
}
