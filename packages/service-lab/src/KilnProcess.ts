import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect } from "vitest"
import { builtProgram } from "./builtProgram.ts"

const program = await builtProgram()
const sources = join(import.meta.dirname, "../../cli/bin/kiln.mjs")

type Environment = Readonly<Record<string, string>>

/** A preloaded module may edit sources as they are loaded, so that process loads them one by one. */
const needsSources = (environment: Environment): boolean => environment["NODE_OPTIONS"] !== undefined

const commandOf = (args: ReadonlyArray<string>, environment: Environment): ReadonlyArray<string> =>
  needsSources(environment)
    ? [process.execPath, "--conditions=@kiln/source", sources, ...args]
    : [process.execPath, program.launcher, ...args]

/** Settings of the surrounding test run must not reach the processes under test. */
const plain = (environment: Environment): NodeJS.ProcessEnv => {
  const { KILN_CONFIG: config } = environment
  return {
    PATH: process.env["PATH"],
    HOME: process.env["HOME"],
    // Half of a short command's time is compiling what it loads.
    NODE_COMPILE_CACHE: program.compileCache,
    ...environment,
    ...(config !== undefined && !needsSources(environment) && { KILN_CONFIG: program.configOf(config) }),
  }
}

/** Passes a listening socket as systemd does: the first descriptor after standard error, and the process it is meant for. */
const withSocket = ["-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"']

/** Options for starting a process. */
export interface StartOptions {
  /** Another program that starts it; the whole command line becomes its last argument. */
  readonly inside?: ReadonlyArray<string>
  /** Descriptor of a listening socket that it serves instead of a port. */
  readonly socket?: number
}

/** The output and exit status of a process. */
export interface Ended {
  /** Its exit code, or the signal that killed it. */
  readonly exit: number | NodeJS.Signals
  readonly stdout: string
  readonly stderr: string
}

/** A real `kiln` process. */
export class KilnProcess implements AsyncDisposable {
  readonly #child
  readonly #ended: Promise<Ended>
  #hasEnded = false
  stdout = ""
  stderr = ""

  constructor(args: ReadonlyArray<string>, environment: Environment, { inside = [], socket }: StartOptions = {}) {
    const plainCommand = commandOf(args, environment)
    const command = socket === undefined ? plainCommand : ["sh", ...withSocket, ...plainCommand]
    const [file = process.execPath, ...rest] = inside.length === 0 ? command : [...inside, command.join(" ")]
    this.#child = spawn(file, rest, {
      env: plain(environment),
      stdio: socket === undefined ? ["ignore", "pipe", "pipe"] : ["ignore", "pipe", "pipe", socket],
    })
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => (this.stdout += text))
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.stderr += text))
    this.#ended = once(this.#child, "close").then(([code, signal]) => {
      this.#hasEnded = true
      return { exit: code ?? signal, stdout: this.stdout, stderr: this.stderr }
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Goes away as a reader of its output and its log. */
  stopReading(): void {
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
  }

  /** Waits for its end and returns it; kills the process and fails if that takes too long. */
  async ended(limitMs = 60_000): Promise<Ended> {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), limitMs)
    const ended = await this.#ended
    clearTimeout(timer)
    expect(ended.exit, `did not end within ${limitMs} ms: ${this.stderr}`).not.toBe("SIGKILL")
    return ended
  }

  /** Kills it as a power failure would. */
  async crash(): Promise<void> {
    this.#child.kill("SIGKILL")
    expect((await this.#ended).exit).toBe("SIGKILL")
  }

  /** Waits until it has printed this; fails if it exits before. */
  async says(
    pattern: RegExp,
    stream: "stdout" | "stderr" = "stdout",
    limitMs: number = 60_000,
  ): Promise<RegExpExecArray> {
    const found = await until(() => pattern.exec(this[stream]) ?? (this.#hasEnded ? "ended" : undefined), limitMs)
    if (found === "ended") throw new Error(`ended without printing ${String(pattern)}: ${this.stdout}${this.stderr}`)
    return found
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.#ended
  }
}

/** Runs a command to its end. */
export const run = async (args: ReadonlyArray<string>, environment: Environment = {}): Promise<Ended> => {
  await using kiln = new KilnProcess(args, environment)
  return await kiln.ended()
}

/** Runs a command with `--json` that must succeed; its standard output must be one JSON document. */
export const runJson = async (args: ReadonlyArray<string>, environment: Environment = {}) => {
  const { exit, stderr, stdout } = await run([...args, "--json"], environment)
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" })
  return JSON.parse(stdout)
}

/** The standard output of `serve`, once it listens. */
export interface Listening {
  readonly url: string
  readonly docs_url: string | null
  readonly first_key: { readonly key: string; readonly key_id: string; readonly project_id: string } | null
}

/** A second of a core, and on a machine that is busy many. */
export const startLimitMs = 60_000

/** Starts a server on a free port; `disposed` kills it. */
export const serve = async (
  environment: Environment,
  options?: StartOptions,
): Promise<KilnProcess & { readonly listening: Listening }> => {
  const kiln = new KilnProcess(["serve", "--json"], { PORT: "0", ...environment }, options)
  const [line] = await kiln.says(/^\{.*\}$/m, "stdout", startLimitMs)
  return Object.assign(kiln, { listening: JSON.parse(line) as Listening })
}

/** An empty directory, removed with its scope. A process that was killed with its terminal may still write to it for a moment. */
export const temporaryDirectory = () => {
  const path = mkdtempSync(join(tmpdir(), "kiln-cli-"))
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  return { path, [Symbol.dispose]: () => existsSync(path) && remove() }
}

/** Asks again and again until there is an answer. */
export const until = async <A>(ask: () => A | undefined | Promise<A | undefined>, limitMs = 60_000): Promise<A> => {
  const givesUpAt = Date.now() + limitMs
  while (true) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (Date.now() > givesUpAt) throw new Error(`nothing within ${limitMs} ms: ${ask.toString()}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

/** The config file of services under test: `KILN_CONFIG`. It reads `CONTRACT_RUNNER` and `CONTRACT_ENGINE`. */
export const serviceConfig = join(import.meta.dirname, "service.config.ts")
