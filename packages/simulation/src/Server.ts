import { createHash } from "node:crypto"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { formatId, type JsonObject } from "@kiln/core/domain"
import { canonicalJson } from "@kiln/core/rules"
import {
  Engine,
  EngineConfig,
  type EngineSettings,
  Fingerprint,
  JobEvents,
  JobReader,
  layerGroupCommit,
  Operator,
} from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import {
  BlobStore,
  IdGenerator,
  JobDirectory,
  JobStore,
  MediaProbe,
  Switchboard,
  UploadStore,
  WakeUp,
} from "@kiln/core/ports"
import { Providers, type ProviderSet } from "@kiln/core/providers"
import { layerSweeps, Worker } from "@kiln/core/worker"
import type { Kernel } from "./Kernel.ts"
import { type SimulatedKinds, uploadSeconds } from "./SimulatedKinds.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** The ports that a server reaches over the network. */
export interface ServerPorts {
  readonly jobs: JobStore["Service"]
  readonly directory: JobDirectory["Service"]
  readonly uploads: UploadStore["Service"]
  readonly board: Switchboard["Service"]
  readonly blobs: BlobStore["Service"]
  readonly sandbox: ProviderSet
  readonly live: ProviderSet
}

/** The operations of a server for callers and operators. */
export type Served = Engine["Service"] & { readonly operator: Operator["Service"] }

/** One process of the installation: the real engine, the real worker and the real sweeps. */
export class Server {
  readonly process: SimulatedProcess
  /** There once it has started, and no more once it stops. */
  engine: Served | undefined
  /** Whether it serves callers, runs jobs, or both. */ readonly role: {
    readonly serves: boolean
    readonly works: boolean
  }
  /** Transfers it is receiving. */
  transfers = 0
  readonly #main: Fiber.Fiber<void>

  constructor(
    kernel: Kernel,
    process: SimulatedProcess,
    role: Server["role"],
    settings: EngineSettings,
    ports: ServerPorts,
    kinds: SimulatedKinds,
  ) {
    this.process = process
    this.role = role
    const main = Effect.scoped(
      Effect.gen({ self: this }, function* () {
        const built = yield* Layer.build(serverLayer(kernel, role.works, settings, ports, kinds))
        if (role.serves)
          this.engine = { ...this.#counting(Context.get(built, Engine)), operator: Context.get(built, Operator) }
        yield* Effect.never
      }),
    )
    this.#main = process.run(main)
  }

  #counting(engine: Engine["Service"]): Engine["Service"] {
    return {
      ...engine,
      receiveUpload: (incoming) =>
        Effect.suspend(() => {
          this.transfers += 1
          return Effect.ensuring(
            engine.receiveUpload(incoming),
            Effect.sync(() => {
              this.transfers -= 1
            }),
          )
        }),
    }
  }

  /** Stops as by SIGTERM; `then` is called when it has ended. */
  stop(then: () => void): void {
    this.engine = undefined
    this.#main.addObserver(then)
    this.process.deliver(() => this.#main.interruptUnsafe())
  }
}

const serverLayer = (
  kernel: Kernel,
  works: boolean,
  settings: EngineSettings,
  ports: ServerPorts,
  kinds: SimulatedKinds,
): Layer.Layer<Engine | Operator> => {
  const adapters = Layer.mergeAll(
    Layer.succeed(JobStore, ports.jobs),
    Layer.succeed(JobDirectory, ports.directory),
    Layer.succeed(UploadStore, ports.uploads),
    Layer.succeed(Switchboard, ports.board),
    Layer.succeed(BlobStore, ports.blobs),
    Layer.succeed(Providers, { sandbox: ports.sandbox, live: ports.live }),
    Layer.succeed(MediaProbe, {
      probe: ({ content }) => Effect.as(Stream.runDrain(content), { seconds: uploadSeconds }),
    }),
    Layer.succeed(IdGenerator, identifiers(kernel)),
    Layer.succeed(Fingerprint, { of: fingerprintOf }),
    WakeUp.layer,
    JobEvents.layer,
    Layer.succeed(EngineConfig, settings),
    Layer.succeed(JobKinds, kinds.all),
  )
  const running = works ? Layer.merge(layerSweeps, Worker.layerRunning) : layerSweeps
  return Layer.provideMerge(running, Layer.merge(Engine.layer, Operator.layer)).pipe(
    Layer.provide(Layer.merge(JobReader.layer, layerGroupCommit)),
    Layer.provide(adapters),
  )
}

export const identifiers = (kernel: Kernel): IdGenerator["Service"] => ({
  next: (prefix) => formatId(prefix, identifier(kernel)),
})

/** A UUIDv7's shape: the time, then chance. */
const identifier = (kernel: Kernel): Uint8Array => {
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, Math.floor(kernel.now / 65_536))
  view.setUint16(4, kernel.now % 65_536)
  for (let at = 6; at < 16; at += 2) view.setUint16(at, kernel.dice.between(0, 65_535))
  return bytes
}

/** Without a secret, because nobody attacks a simulation; synchronous, so that it stays deterministic. */
const fingerprintOf = (kind: string, request: JsonObject): string =>
  createHash("sha256")
    .update(`${kind}\n${canonicalJson(request)}`)
    .digest("hex")
