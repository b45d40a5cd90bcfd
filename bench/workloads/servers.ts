import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { peakMbOf } from "../child/peakMb.ts"
import type { HttpServerOptions } from "../child/httpServer.ts"

/** A server process. */
export interface Server extends AsyncDisposable {
  readonly port: number
  readonly pid: number
  /** The first line it printed, read as JSON. */
  readonly listening: Listening
  /** Empty at the start, removed at the end. */
  readonly directory: string
  /** Milliseconds from its start until it listened. */
  readonly readyMs: number
  /** Returns the largest resident set of the process so far, in MB; NaN where that is unknown. */
  readonly peakMb: () => number
}

interface Listening {
  readonly port?: number
  readonly url?: string
  readonly first_key?: { readonly key: string } | null
}

/** Whether servers can have one core to themselves. */
const canPin = availableParallelism() > 1 && spawnSync("taskset", ["-c", "0", "true"]).status === 0

interface StartOptions {
  readonly args: ReadonlyArray<string>
  readonly env: NodeJS.ProcessEnv
  readonly directory: string
  /** Whether it may use all cores. By default it has the first one. */
  readonly allCores?: boolean
}

/** Starts a Node program and waits for the line of JSON it prints when it listens. */
const startServer = async ({ allCores = false, args, directory, env }: StartOptions): Promise<Server> => {
  const command = [...(canPin && !allCores ? ["taskset", "-c", "0"] : []), process.execPath, ...args]
  const from = performance.now()
  const child: ChildProcess = spawn(command[0] ?? "", command.slice(1), {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
    stdio: ["ignore", "pipe", "pipe"],
  })
  let complaints = ""
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-4_000)))
  const gone = once(child, "close")
  const line = await Promise.race([
    new Promise<string>((resolve) => {
      if (child.stdout !== null)
        createInterface({ input: child.stdout }).on("line", (text) => text.startsWith("{") && resolve(text))
    }),
    gone.then(() => undefined),
  ])
  if (line === undefined) throw new Error(`the server ended at its start: ${complaints}`)
  const listening = JSON.parse(line) as Listening
  return {
    listening,
    pid: child.pid ?? 0,
    port: listening.port ?? Number(new URL(listening.url ?? "").port),
    directory,
    readyMs: performance.now() - from,
    peakMb: () => peakMbOf(child.pid ?? 0) ?? Number.NaN,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL")
      await gone
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const temporary = (): string => mkdtempSync(join(tmpdir(), "kiln-bench-http-"))

const launcher = (built: string): string => join(built, "packages/cli/bin/kiln.mjs")

const environment = (directory: string): Readonly<Record<string, string>> => ({
  PORT: "0",
  KILN_DATA_DIR: join(directory, "data"),
  KILN_FIRST_KEY: "print",
  KILN_RATE_LIMITS: "off",
  KILN_QUEUE_CAP: "0",
  KILN_UPLOAD_CAP: "0",
})

/** Starts `kiln serve` with files in an empty directory, and SQLite there or a Postgres database. */
export const startKiln = (
  built: string,
  {
    allCores = false,
    databaseUrl,
    role = "all",
    slots,
  }: {
    readonly allCores?: boolean
    readonly databaseUrl?: string
    readonly role?: "all" | "api"
    readonly slots?: number
  } = {},
): Promise<Server> => {
  const directory = temporary()
  const database = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl, KILN_BLOBS: "file:" }
  const concurrency = slots === undefined ? {} : { KILN_CONCURRENCY: String(slots) }
  const env = { ...environment(directory), ...database, ...concurrency, KILN_ROLE: role }
  return startServer({ args: [launcher(built), "serve", "--json"], env, directory, allCores })
}

/** The same, with a live key and a provider whose speech is this file. */
export const startKilnWithSpeech = async (
  built: string,
  file: string,
): Promise<{ readonly server: Server; readonly key: string }> => {
  const directory = temporary()
  const config = join(directory, "config.mjs")
  writeFileSync(
    config,
    `import { readFile } from "node:fs/promises"
export default { providers: { speech: async () => ({ data: new Uint8Array(await readFile(${JSON.stringify(file)})) }) } }
`,
  )
  const env = { ...environment(directory), KILN_CONFIG: config }
  const kiln = (...args: ReadonlyArray<string>): string =>
    execFileSync(process.execPath, [launcher(built), ...args, "--json"], {
      env: { PATH: process.env["PATH"], ...env },
      encoding: "utf8",
    })
  kiln("project", "create", "bench", "--init")
  kiln(
    "price",
    "set",
    "svc-audio",
    "--input-character",
    "0.0001",
    "--input-audio-second",
    "0.0001",
    "--output-token",
    "0.0001",
  )
  kiln("price", "activate", "svc-audio")
  kiln("switch", "on", "ai")
  kiln("switch", "on", "audio")
  const made = kiln("key", "create", "--project", "bench", "--mode", "live", "--scope", "audio.create")
  const { key } = JSON.parse(made) as { readonly key: string }
  return { server: await startServer({ args: [launcher(built), "serve", "--json"], env, directory }), key }
}

/** Starts bare `node:http`. */
export const startBare = (programs: string, options: Omit<HttpServerOptions, "directory">): Promise<Server> => {
  const directory = temporary()
  const args = [join(programs, "httpServer.mjs"), JSON.stringify({ ...options, directory })]
  return startServer({ args, env: {}, directory })
}
