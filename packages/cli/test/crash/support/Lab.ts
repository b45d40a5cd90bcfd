import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Effect } from "effect"
import type { Job, JobId } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { KilnProcess, type Listening, serve, startLimitMs, temporaryDirectory, until } from "@kiln/service-lab"
import type { EngineOverrides } from "../../../src/KilnConfig.ts"
import type { Edit } from "../fixtures/editModules.ts"
import { type CallLine, labFiles, type MarkLine } from "../fixtures/LabFiles.ts"
import { keyOfBlobFile } from "../../support/blobFiles.ts"
import { Client } from "./Client.ts"
import { type LabStore, type MakeStore, sqliteStore } from "./LabStore.ts"
import { type SeededKey, seedStores } from "./seed.ts"

const fixtures = join(import.meta.dirname, "../fixtures")

const preload = pathToFileURL(join(fixtures, "editModules.ts")).href

/** Starting a process takes a second of a core, and on a machine that is busy many: no figure asserted counts that. */
export const patience = { timeout: 120_000 }

/** The least that kiln takes. */
export const leaseMs = 2_000

export interface StartOptions {
  /** Changes to single modules of this process. */
  readonly edits?: ReadonlyArray<Edit>
  readonly engine?: EngineOverrides
  readonly env?: Readonly<Record<string, string>>
}

/** A running `kiln serve`, with a client that has the live key. */
export type Server = KilnProcess & { readonly listening: Listening; readonly client: Client }

const below = (directory: string): ReadonlyArray<string> =>
  existsSync(directory)
    ? readdirSync(directory, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
        .toSorted()
    : []

/** One data directory, its store, the processes on them, and what was seen of them. Whatever happens, all of it goes in the end. */
export class Lab implements AsyncDisposable {
  readonly #root: ReturnType<typeof temporaryDirectory>
  readonly #files
  readonly #starting: Array<Promise<KilnProcess>> = []
  readonly #running: Array<KilnProcess> = []
  /** Also a stopped process goes with the test run, which may end before a test that took too long. */
  readonly #killAll = (): void => this.#running.forEach((server) => server.kill("SIGKILL"))
  readonly store: LabStore
  readonly live: SeededKey

  static async open(makeStore: MakeStore = sqliteStore): Promise<Lab> {
    const root = temporaryDirectory()
    const dataDirectory = join(root.path, "data")
    mkdirSync(dataDirectory, { mode: 0o700 })
    const store = await makeStore(dataDirectory)
    return new Lab(root, store, (await Effect.runPromise(Effect.provide(seedStores, store.layer))).live)
  }

  private constructor(root: ReturnType<typeof temporaryDirectory>, store: LabStore, live: SeededKey) {
    this.#root = root
    this.store = store
    this.#files = labFiles(root.path)
    this.live = live
    process.once("exit", this.#killAll)
  }

  get dataDirectory(): string {
    return join(this.#root.path, "data")
  }

  /** How many processes there were in all. */
  get started(): number {
    return this.#starting.length
  }

  #environment(options: StartOptions): Readonly<Record<string, string>> {
    const edits = options.edits ?? []
    return {
      ...this.store.env,
      KILN_DATA_DIR: this.dataDirectory,
      KILN_CONFIG: join(fixtures, "lab.config.ts"),
      KILN_LEASE_SECONDS: String(leaseMs / 1_000),
      KILN_RATE_LIMITS: "off",
      CRASH_LAB: this.#root.path,
      CRASH_LAB_RUNNER: String(process.pid),
      CRASH_LAB_ENGINE: JSON.stringify(options.engine ?? {}),
      ...(edits.length > 0 && { CRASH_LAB_EDITS: JSON.stringify(edits), NODE_OPTIONS: `--import=${preload}` }),
      ...options.env,
    }
  }

  #track<Started extends KilnProcess>(starting: Promise<Started>): Promise<Started> {
    this.#starting.push(starting)
    return starting
  }

  /** Starts a process that only runs jobs; it does when this returns. */
  startWorker(options: StartOptions = {}): Promise<KilnProcess> {
    const kiln = new KilnProcess(["serve"], { ...this.#environment(options), KILN_ROLE: "worker" })
    this.#running.push(kiln)
    return this.#track(kiln.says(/the worker is running/, "stderr", startLimitMs).then(() => kiln))
  }

  /** Starts a server; it is ready when this returns. */
  start(options: StartOptions = {}): Promise<Server> {
    const starting = serve(this.#environment(options)).then((kiln) => {
      const server = Object.assign(kiln, { client: new Client(kiln.listening.url, this.live.key) })
      this.#running.push(server)
      return server
    })
    return this.#track(starting)
  }

  /** Provider calls in the order in which they began. */
  calls(jobId?: string): ReadonlyArray<CallLine> {
    return this.#files.calls().filter((call) => jobId === undefined || call.jobId === jobId)
  }

  begun(jobId: string, provider?: string): ReadonlyArray<CallLine> {
    return this.calls(jobId).filter(
      (call) => call.event === "begun" && (provider === undefined || call.provider === provider),
    )
  }

  /** The call of this attempt, once it began. */
  attemptBegun(jobId: string, attempt: number): Promise<CallLine> {
    return until(() => this.begun(jobId).find((call) => call.attempt === attempt))
  }

  /** Waits until a process reached this point of its program. */
  reached(point: string): Promise<MarkLine> {
    return until(() => this.#files.marks().find((mark) => mark.point === point))
  }

  /** Any code that reaches this point, or a call's `gate`, waits there. */
  hold(name: string): void {
    writeFileSync(this.#files.holdFile(name), "")
  }

  letGo(name: string): void {
    rmSync(this.#files.holdFile(name))
  }

  jobs(ids: ReadonlyArray<string>): Promise<ReadonlyArray<Job>> {
    return Effect.gen({ self: this }, function* () {
      const store = yield* JobStore
      const found = yield* store.findJobs(ids.map((id) => ({ jobId: id as JobId, principal: this.live.owner })))
      return found.filter((job) => job !== undefined)
    }).pipe(Effect.provide(this.store.layer), Effect.runPromise)
  }

  async job(id: string): Promise<Job> {
    const [job] = await this.jobs([id])
    if (job === undefined) throw new Error(`the store has no ${id}`)
    return job
  }

  /** Keys of all blobs of jobs and uploads, straight from the directory; what the installation keeps for itself is neither. */
  blobs(): ReadonlyArray<string> {
    return below(join(this.dataDirectory, "blobs"))
      .map(keyOfBlobFile)
      .filter((key) => key !== ".store" && !key.startsWith("installation/") && !key.startsWith("lineage/"))
  }

  /** Paths of files that are being written, or were. */
  temporaries(): ReadonlyArray<string> {
    const directory = join(this.dataDirectory, "tmp")
    return below(directory).map((name) => join(directory, name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const started of await Promise.allSettled(this.#starting))
      if (started.status === "fulfilled") await started.value[Symbol.asyncDispose]()
    process.off("exit", this.#killAll)
    await this.store.dispose()
    this.#root[Symbol.dispose]()
  }
}
