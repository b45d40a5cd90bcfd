import { type ChildProcess, spawn } from "node:child_process"
import { type ProviderError, providerBroken, providerRefused, providerUnavailable } from "@kiln/core/providers"
import { Effect } from "effect"

/** One run of a local program. */
export interface Program {
  /** A path, or a name to search in PATH. */
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** Its standard input: bytes or an open file. */
  readonly input: Uint8Array | { readonly fd: number }
  /** Instructions for the operator if the program is missing. */
  readonly install: string
  readonly timeLimitMs: number
  /** Maximum output in bytes. */
  readonly maxOutputBytes: number
}

/** How long a program may take to exit before it is killed. */
const graceMs = 500
const maxComplaintLength = 2_000

/**
 * Runs a program without a shell and returns its standard output. Interruption and the time limit stop the program and wait
 * for its exit.
 *
 * Fails with `ProviderBroken` if the program is missing or exits with a code other than 0, because other jobs would fail the
 * same way. Validate the input first.
 */
export const runProgram = (program: Program): Effect.Effect<Uint8Array, ProviderError> =>
  Effect.timeoutOrElse(untilItEnds(program), {
    duration: program.timeLimitMs,
    orElse: () =>
      Effect.fail(providerUnavailable(`${program.command} was not done after ${program.timeLimitMs / 1000} s`)),
  })

const untilItEnds = ({ args, command, input, install, maxOutputBytes }: Program) =>
  Effect.callback<Uint8Array, ProviderError>((resume) => {
    const stdin = "fd" in input ? input.fd : "pipe"
    // Do not pass the worker's environment, which contains secrets.
    const env = { PATH: process.env["PATH"], LANG: "C.UTF-8" }
    let child: ChildProcess
    try {
      child = spawn(command, args, { stdio: [stdin, "pipe", "pipe"], env })
    } catch (error) {
      return resume(Effect.fail(couldNotStart(error, command, install)))
    }
    const output: Array<Buffer> = []
    let bytes = 0
    let complaint = ""
    child.stdout?.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= maxOutputBytes) return void output.push(chunk)
      resume(Effect.andThen(end(child), providerRefused("input", `${command} wrote more than ${maxOutputBytes} bytes`)))
    })
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint = (complaint + text).slice(-maxComplaintLength)
    })
    child.on("error", (error) => resume(Effect.fail(couldNotStart(error, command, install))))
    child.on("close", (code, signal) => {
      if (code === 0) return resume(Effect.succeed(Buffer.concat(output)))
      if (signal !== null) return resume(Effect.fail(providerUnavailable(`${command} was ended by ${signal}`)))
      const said = complaint.trim().split("\n").at(-1) ?? ""
      resume(Effect.fail(providerBroken("configuration", `${command} ended with exit code ${code}: ${said}`)))
    })
    // If the program exits before reading all input, its exit code says why.
    child.stdin?.on("error", () => {})
    if (!("fd" in input)) child.stdin?.end(input)
    return end(child)
  })

const couldNotStart = (error: unknown, command: string, install: string): ProviderError => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  return code === "ENOENT" || code === "EACCES"
    ? providerBroken("configuration", `cannot run ${command} (${code}): ${install}`)
    : providerUnavailable(`cannot run ${command} now: ${String(error)}`)
}

/** Stops a program and waits for its exit. */
const end = (child: ChildProcess): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    const kill = setTimeout(() => child.kill("SIGKILL"), graceMs)
    child.once("exit", () => {
      clearTimeout(kill)
      resume(Effect.void)
    })
    child.kill("SIGTERM")
  })
