import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { BlobStore, IdGenerator, JobDirectory, JobStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { adoptBlobs } from "@kiln/core/worker"
import type { EngineSettings } from "@kiln/core/effect"
import { copyMemoryStores } from "@kiln/testing"
import type { Kernel } from "./Kernel.ts"
import type { Network, Remote } from "./Network.ts"
import { type Blobs, remoteBlobStore } from "./RemoteBlobs.ts"
import { identifiers, Server } from "./Server.ts"
import type { SimulatedKinds } from "./SimulatedKinds.ts"
import { SimulatedProcess } from "./SimulatedProcess.ts"

/** The source of a copy of the stores. */
interface Original {
  readonly kernel: Kernel
  readonly network: Network
  /** Whose clock is store time. */
  readonly store: SimulatedProcess
  readonly jobs: JobStore["Service"]
  readonly blobs: Blobs
  readonly line: Remote
  readonly settings: EngineSettings
  readonly kinds: SimulatedKinds
}

/**
 * A copy of the stores as they are now, on which somebody starts a process later, with the same blobs: a backup that was picked
 * wrongly, or a clone for a test. Nobody submits to it and it claims nothing; it looks after the blobs, as every process does.
 */
export class StoreCopy {
  readonly #original: Original
  readonly #stores: NonNullable<ReturnType<typeof copyMemoryStores>>
  #server: Server | undefined

  private constructor(original: Original, stores: NonNullable<ReturnType<typeof copyMemoryStores>>) {
    this.#original = original
    this.#stores = stores
  }

  /** `undefined` where these stores cannot be copied. */
  static of(original: Original): StoreCopy | undefined {
    const stores = copyMemoryStores(original.jobs)
    return stores && new StoreCopy(original, stores)
  }

  start(): void {
    const { blobs, kernel, kinds, line, network, settings } = this.#original
    const process = new SimulatedProcess(kernel, "copy")
    const jobs = this.#direct(Context.get(this.#stores, JobStore))
    const uploads = this.#direct(Context.get(this.#stores, UploadStore))
    const ports = {
      // Data that expires also expires in the original. This check is only about missing blobs.
      jobs: {
        ...jobs,
        capabilities: { durable: true, multiProcess: true },
        expireJobs: () => Effect.succeed([]),
      },
      uploads: { ...uploads, expireUploads: () => Effect.succeed({ count: 0, purges: [] }) },
      directory: this.#direct(Context.get(this.#stores, JobDirectory)),
      board: this.#direct(Context.get(this.#stores, Switchboard)),
      blobs: remoteBlobStore({ process, network, remote: line }, blobs),
      sandbox: {},
      live: {},
    }
    const kept = { ...settings, dataRetentionMs: 0, jobRetentionMs: 0 }
    this.#server = new Server(kernel, process, { serves: false, works: false }, kept, ports, kinds)
  }

  /** Simulates the operator's repair: stops everything on the copy and continues with the original. Returns whether it was needed. */
  settle(): boolean {
    if (this.#server === undefined) return false
    const { blobs, jobs, kernel, line, network, store } = this.#original
    this.#server.process.kill()
    this.#server = undefined
    store.run(
      adoptBlobs.pipe(
        Effect.provideService(JobStore, jobs),
        Effect.provideService(BlobStore, remoteBlobStore({ process: store, network, remote: line }, blobs)),
        Effect.provideService(IdGenerator, identifiers(kernel)),
      ),
    )
    return true
  }

  /** Verbs as done at store time, past every line and every fault. */
  #direct<Port extends object>(port: Port): Port {
    const { network } = this.#original
    const done = (verb: unknown) =>
      Effect.isEffect(verb) ? Effect.suspend(() => network.perform(verb as Effect.Effect<unknown, unknown>)) : verb
    return Object.fromEntries(
      Object.entries(port).map(([name, member]) => [
        name,
        typeof member === "function"
          ? (...input: ReadonlyArray<unknown>) =>
              done((member as (...input: ReadonlyArray<unknown>) => unknown)(...input))
          : done(member),
      ]),
    ) as Port
  }
}
