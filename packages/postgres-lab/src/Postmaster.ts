import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import type { RunAs } from "./binaries.ts"
import { childrenOf, isAnyRunning, signalIfThere } from "./processes.ts"

/** `fast` ends every connection and writes all to disk; `immediate` just stops, and the next start recovers. */
export type StopMode = "fast" | "immediate"

export interface PostmasterOptions {
  readonly bin: string
  readonly directory: string
  readonly user: RunAs
  readonly arguments: ReadonlyArray<string>
}

const startTimeoutMs = 60_000

/** The process of one cluster's server: started and stopped any number of times over the same data. */
export class Postmaster {
  readonly #options: PostmasterOptions
  #child: ChildProcess | undefined

  constructor(options: PostmasterOptions) {
    this.#options = options
  }

  /** The server's process, or undefined while it does not run. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  get logFile(): string {
    return join(this.#options.directory, "log")
  }

  /** Resolves when the server accepts connections, which after a crash is when it has recovered. */
  async start(): Promise<void> {
    if (this.#child !== undefined) throw new Error("the server runs already")
    const { bin, directory, user } = this.#options
    const log = openSync(this.logFile, "a")
    const child = spawn(join(bin, "postgres"), ["-D", join(directory, "data"), ...this.#options.arguments], {
      ...user,
      cwd: directory,
      // Settings like PGDATA or PGOPTIONS of the developer's shell are not meant for this server.
      env: { LC_ALL: "C", TZ: "UTC" },
      // A session of its own: an interrupt from the keyboard is for whoever started it.
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
      // Postgres tells that it is ready in its pid file and in no other way that survives a busy log.
      await sleep(10)
    }
  }

  async stop(mode: StopMode): Promise<void> {
    await this.#end(() => this.#child?.kill(mode === "fast" ? "SIGINT" : "SIGQUIT"))
  }

  /** SIGKILL for the server and every process of it at once, the nearest thing to a power cut. */
  async kill9(): Promise<void> {
    await this.#end((pid) => {
      for (const victim of [pid, ...childrenOf(pid)]) signalIfThere(victim, "SIGKILL")
    })
  }

  /** Signals one process of the server, and only such a one. */
  signal(pid: number, signal: NodeJS.Signals): void {
    if (this.pid === undefined || !childrenOf(this.pid).includes(pid)) {
      throw new Error(`${pid} is no process of this server`)
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
    // A frozen process would never hear of it.
    for (const frozen of children) signalIfThere(frozen, "SIGCONT")
    await gone
    // A killed server cannot wait for its own processes, and the next start refuses while one of them still lives.
    while (isAnyRunning(children)) await sleep(5)
  }

  #isReady(child: ChildProcess): boolean {
    try {
      const lines = readFileSync(join(this.#options.directory, "data/postmaster.pid"), "utf8").split("\n")
      // Until this server has written its own, the file of a killed one may lie there.
      return Number(lines[0]) === child.pid && lines[7]?.trim() === "ready"
    } catch {
      return false
    }
  }
}
