import type { EngineSettings } from "@kiln/core/effect"
import type { BlobStore, IdGenerator, JobStore, KeyDirectory, Switchboard, UploadStore } from "@kiln/core/ports"
import type { HttpSettings } from "@kiln/http"
import type { RateLimits } from "@kiln/http/mount"
import type { Key, NewKey } from "@kiln/service-lab"
import type { Effect } from "effect"
import { inject } from "vitest"
import type { Answer } from "./Answer.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The tier that runs: `test`, `system`, `proof` or `long`. */
    readonly tier: string
  }
}

export type StoreName = "memory" | "sqlite" | "postgres"

/** The stores of this tier: SQLite with the test command and Postgres in the system tier, each compared with memory. */
export const storeNames: ReadonlyArray<StoreName> =
  inject("tier") === "system" ? ["memory", "postgres"] : ["memory", "sqlite"]

/** Servers a service can live in: Express with Node's handler, and one that makes a web-standard `Request` of everything. */
export type MountName = "express" | "fetch"
export const mountPrefix = "/api/kiln"

/** The ports a test may stand in front of. */
export interface Ports {
  readonly jobs: JobStore["Service"]
  readonly uploads: UploadStore["Service"]
  readonly keys: KeyDirectory["Service"]
  readonly switchboard: Switchboard["Service"]
  readonly blobs: BlobStore["Service"]
}

/** How the service under test differs from an installation with the default settings. */
export interface ServiceSettings {
  readonly engine?: Partial<Omit<EngineSettings, "upload">> & { readonly upload?: Partial<EngineSettings["upload"]> }
  readonly http?: Partial<HttpSettings>
  /** `false`: nothing runs jobs. */
  readonly worker?: boolean
  /** Live jobs have a provider: the sandbox's models. */
  readonly live?: boolean
  /** The transcript that the sandbox returns for every file instead of its default. */
  readonly transcript?: string
  /** The sandbox's speech holds its slot for the seconds in a text such as `hold:2`. */
  readonly holds?: boolean
  /** The rows depend on state of one process, such as rate-limit buckets, so there is only one process. */
  readonly oneProcess?: boolean
  /** Stands between the service and its ports. */
  readonly wrap?: (ports: Ports, store: StoreName) => Partial<Ports>
  /** It is mounted in another server under `mountPrefix` instead of having its own. In this process only. */
  readonly mount?: MountName
  /** The service may return 5xx, because its ports fail on purpose. */
  readonly serverErrors?: boolean
  /** Changes answers on their way to the tests, to see whether these notice. */
  readonly tamper?: (answer: Answer) => Answer
}

/** What tests reach behind the service's back. */
export type Backstage = JobStore | UploadStore | KeyDirectory | Switchboard | BlobStore | IdGenerator

/** A running service: on Postgres as two, on one database and one blob directory. */
export interface Service {
  readonly store: StoreName
  /** One for each of its parts that answer requests; where there are two, jobs are run by the last one alone. */
  readonly ports: readonly [number, ...ReadonlyArray<number>]
  readonly settings: ServiceSettings
  /** Everything it has logged, one entry a line. */
  readonly logs: ReadonlyArray<string>
  readonly run: <A>(effect: Effect.Effect<A, unknown, Backstage>) => Promise<A>
  readonly createKey: (key?: NewKey) => Promise<Key>
  readonly stop: () => Promise<void>
}

/** Not the address it listens on: absolute URLs come from configuration, never from `Host`. */
export const publicUrl = "https://api.kiln.example"

/** Every limit off, so that only the tables about limits meet them. */
const off = { perMinute: 0, burst: 0 }
export const noRateLimits: RateLimits = {
  create: off,
  upload: off,
  read: off,
  delete: off,
  authentication: off,
  pages: off,
}
