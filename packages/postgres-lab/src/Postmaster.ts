import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import type { RunAs } from "./binaries.ts"
import { childrenOf, isAnyRunning, signalIfThere } from "./processes.ts"

/** `fast` ends all connections and writes everything to disk; `immediate` just stops, and the next start recovers. */
export type StopMode = "fast" | "immediate"

export interface PostmasterOptions {
  readonly bin: string
  readonly directory: string
  readonly user: RunAs
  readonly arguments: ReadonlyArray<string>
}

const startTimeoutMs = 60_000

/** The server process of one cluster, which can be started and stopped repeatedly on the same data. */
export class Postmaster {
  readonly #options: PostmasterOptions
  #child: ChildProcess | undefined

  constructor(options: PostmasterOptions) {
    this.#options = options
  }

  /** The process id of the server, or undefined if it is not running. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  get logFile(): string {
    return join(this.#options.directory, "log")
  }

  /** Starts the server. Resolves when it accepts connections, which after a crash means that it has recovered. */
  async start(): Promise<void> {
    if (this.#child !== undefined) throw new Error("the server is already running")
    const { bin, directory, user } = this.#options
    const log = openSync(this.logFile, "a")
    const child = spawn(join(bin, "postgres"), ["-D", join(directory, "data"), ...this.#options.arguments], {
      ...user,
      cwd: directory,
      // Ignore settings like PGDATA or PGOPTIONS from the developer's shell.
      env: { LC_ALL: "C", TZ: "UTC" },
      // A separate session, so that a keyboard interrupt reaches only the parent process.
      detached: true,
      stdio: ["ignore", log, log],
    })
    closeSync(log)
    child.unref()
    this.#child = child
    child.once("exit", () => {
      if (this.#child === child) this.#child = undefined
    })
    const deadline = performance.now() + startTimeoutMs
    while (!this.#isReady(child)) {
      if (this.#child !== child || performance.now() > deadline) {
        child.kill("SIGKILL")
        throw new Error(`the server did not start:\n${readFileSync(this.logFile, "utf8").slice(-2_000)}`)
      }
      // The pid file is the only reliable signal that Postgres is ready; the log may be busy.
      await sleep(10)
    }
  }

  async stop(mode: StopMode): Promise<void> {
    await this.#end(() => this.#child?.kill(mode === "fast" ? "SIGINT" : "SIGQUIT"))
  }

  /** Sends SIGKILL to all processes of the server at once, which comes closest to a power cut. */
  async kill9(): Promise<void> {
    await this.#end((pid) => {
      for (const victim of [pid, ...childrenOf(pid)]) signalIfThere(victim, "SIGKILL")
    })
  }

  /** Signals one process of the server; throws for any other process. */
  signal(pid: number, signal: NodeJS.Signals): void {
    if (this.pid === undefined || !childrenOf(this.pid).includes(pid)) {
      throw new Error(`process ${pid} does not belong to this server`)
    }
    process.kill(pid, signal)
  }

  async #end(signal: (pid: number) => void): Promise<void> {
    const child = this.#child
    if (child?.pid === undefined) return
    const children = childrenOf(child.pid)
    child.ref()
    const gone = once(child, "exit")
    signal(child.pid)
    // A frozen process would not react.
    for (const frozen of children) signalIfThere(frozen, "SIGCONT")
    await gone
    // A killed server cannot wait for its processes, and the next start fails while one of them is alive.
    while (isAnyRunning(children)) await sleep(5)
  }

  #isReady(child: ChildProcess): boolean {
    try {
      const lines = readFileSync(join(this.#options.directory, "data/postmaster.pid"), "utf8").split("\n")
      // The file of a killed server may exist until this one has written its own.
      return Number(lines[0]) === child.pid && lines[7]?.trim() === "ready"
    } catch {
      return false
    }
  }
}
