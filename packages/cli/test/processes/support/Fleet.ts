import { join } from "node:path"
import { Effect, Layer } from "effect"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { PostgresStores } from "@kiln/adapter-postgres"
import { builtInKinds } from "@kiln/core/kinds"
import type { Job } from "@kiln/core/domain"
import { type BlobStore, IdGenerator, JobStore, type KeyDirectory, type UploadStore } from "@kiln/core/ports"
import { type FreshDatabase, freshDatabase } from "@kiln/postgres-lab"
import {
  createKey,
  type Key,
  KilnProcess,
  type Listening,
  run,
  serve,
  serviceConfig,
  startLimitMs,
  temporaryDirectory,
} from "@kiln/service-lab"
import { type CallLine, labFiles } from "../../crash/fixtures/LabFiles.ts"
import { Client } from "../../crash/support/Client.ts"
import { type SeededKeys, seedStores } from "../../crash/support/seed.ts"
import type { EngineOverrides } from "../../../src/KilnConfig.ts"

/** Starting a process takes a second of a core, and on a machine that is busy many: no figure asserted counts that. */
export const patience = { timeout: 120_000 }

const config = {
  none: serviceConfig,
  live: join(import.meta.dirname, "../../crash/fixtures/lab.config.ts"),
}

export interface ProcessOptions {
  readonly engine?: EngineOverrides
  readonly env?: Readonly<Record<string, string>>
}

export interface WorkerOptions extends ProcessOptions {
  /** Whether it has providers for live jobs, of the lab's: they do what the text of a request says. Default true. */
  readonly live?: boolean
}

/** A process that answers requests, asked with the live key and with the sandbox's. */
export interface ApiProcess {
  readonly process: KilnProcess & { readonly listening: Listening }
  readonly url: string
  readonly live: Client
  readonly sandbox: Client
}

type Backstage = JobStore | UploadStore | KeyDirectory | BlobStore | IdGenerator

/** One Postgres database, one data directory, and any number of processes on them. All of it goes in the end. */
export class Fleet implements AsyncDisposable {
  readonly #database: FreshDatabase
  readonly #directory = temporaryDirectory()
  readonly #starting: Array<Promise<KilnProcess>> = []
  readonly #files = labFiles(this.#directory.path)
  readonly keys: SeededKeys

  static async open(): Promise<Fleet> {
    const database = await freshDatabase()
    const layer = PostgresStores.layer({ url: database.url, notifications: false, connectTimeoutMs: 30_000 })
    return new Fleet(database, await Effect.runPromise(Effect.provide(seedStores, layer)))
  }

  private constructor(database: FreshDatabase, keys: SeededKeys) {
    this.#database = database
    this.keys = keys
  }

  get dataDirectory(): string {
    return join(this.#directory.path, "data")
  }

  #environment(options: WorkerOptions): Readonly<Record<string, string>> {
    const engine = JSON.stringify(options.engine ?? {})
    return {
      DATABASE_URL: this.#database.url,
      KILN_DATA_DIR: this.dataDirectory,
      KILN_RATE_LIMITS: "off",
      KILN_CONFIG: options.live === true ? config.live : config.none,
      CRASH_LAB: this.#directory.path,
      CRASH_LAB_RUNNER: String(process.pid),
      CRASH_LAB_ENGINE: engine,
      CONTRACT_RUNNER: String(process.pid),
      CONTRACT_ENGINE: engine,
      ...options.env,
    }
  }

  /** Starts a process that answers requests and runs nothing. */
  async api(options: ProcessOptions = {}): Promise<ApiProcess> {
    const starting = serve({ ...this.#environment(options), KILN_ROLE: "api" })
    this.#starting.push(starting)
    const started = await starting
    const { url } = started.listening
    const { live, sandbox } = this.keys
    return { process: started, url, live: new Client(url, live.key), sandbox: new Client(url, sandbox.key) }
  }

  /** Starts two of them concurrently. */
  apis(options?: ProcessOptions): Promise<readonly [ApiProcess, ApiProcess]> {
    return Promise.all([this.api(options), this.api(options)])
  }

  /** Starts a process that runs jobs and answers nothing. */
  async worker(options: WorkerOptions = {}): Promise<KilnProcess> {
    const kiln = new KilnProcess(["serve"], {
      ...this.#environment({ live: true, ...options }),
      KILN_ROLE: "worker",
    })
    this.#starting.push(Promise.resolve(kiln))
    await kiln.says(/the worker is running/, "stderr", startLimitMs)
    return kiln
  }

  /** Runs a command on the same database. */
  command(...args: ReadonlyArray<string>): ReturnType<typeof run> {
    return run(args, this.#environment({}))
  }

  /** Asks the stores themselves, from here. */
  backstage<A>(effect: Effect.Effect<A, unknown, Backstage>): Promise<A> {
    const layer = Layer.mergeAll(
      PostgresStores.layer({ url: this.#database.url, notifications: false, connectTimeoutMs: 30_000 }),
      FileBlobStore.layer({ directory: this.dataDirectory }),
      IdGenerator.layer,
    )
    return Effect.runPromise(Effect.provide(effect, layer))
  }

  /** A sandbox key in a project of its own. */
  newKey(): Promise<Key> {
    return this.backstage(createKey({}))
  }

  /** Takes every sandbox job that waits: where nothing runs jobs, these are all there are. */
  takeAll(): Promise<ReadonlyArray<string>> {
    const runnable = builtInKinds().flatMap(({ name, readsFrom, version }) =>
      Array.from({ length: version - readsFrom + 1 }, (_, n) => ({
        kind: name,
        kindVersion: readsFrom + n,
        mode: "sandbox" as const,
      })),
    )
    const request = {
      runnable,
      limits: { perKind: {}, perProject: 0 },
      limit: 1_000,
      leaseDurationMs: 60_000,
      maxLostWorkers: 3,
    }
    return this.backstage(
      Effect.gen(function* () {
        const { claims } = yield* (yield* JobStore).claimJobs(request)
        return claims.map(({ job }) => job.id)
      }),
    )
  }

  /** A live job as the store has it. */
  job(id: string): Promise<Job> {
    const principal = this.keys.live.owner
    return this.backstage(
      Effect.gen(function* () {
        const [job] = yield* (yield* JobStore).findJobs([{ jobId: id as Job["id"], principal }])
        if (job === undefined) throw new Error(`the store has no ${id}`)
        return job
      }),
    )
  }

  /** Calls of live providers in the order in which they began and ended. */
  calls(): ReadonlyArray<CallLine> {
    return this.#files.calls()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const started of await Promise.allSettled(this.#starting))
      if (started.status === "fulfilled") await started.value[Symbol.asyncDispose]()
    this.#directory[Symbol.dispose]()
    await this.#database.dispose()
  }
}
