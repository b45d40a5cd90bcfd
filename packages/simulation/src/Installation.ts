import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import {
  type Chunk,
  type Job,
  type JobId,
  maxChunks,
  type Principal,
  type SwitchName,
  switchNames,
} from "@kiln/core/domain"
import { JobDirectory, JobStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { BlobBooks } from "./BlobBooks.ts"
import { CallerContext } from "./caller/CallerContext.ts"
import { ClaimBooks } from "./ClaimBooks.ts"
import type { Dice } from "./Dice.ts"
import { RequestRouter } from "./RequestRouter.ts"
import { Kernel } from "./Kernel.ts"
import { LimitBooks } from "./LimitBooks.ts"
import { MoneyBooks } from "./MoneyBooks.ts"
import { Network, type Remote } from "./Network.ts"
import type { Profile } from "./Profile.ts"
import { Coverage } from "./Coverage.ts"
import { Blobs, remoteBlobStore } from "./RemoteBlobs.ts"
import { remoteJobDirectory, remoteJobStore, remoteSwitchboard, remoteUploadStore } from "./RemoteStores.ts"
import { ProviderBooks } from "./ProviderBooks.ts"
import { ResultBooks } from "./ResultBooks.ts"
import { RetentionBooks } from "./RetentionBooks.ts"
import { Server } from "./Server.ts"
import { SignalBooks } from "./SignalBooks.ts"
import type { SimulatedKinds } from "./SimulatedKinds.ts"
import { SimulatedProcess } from "./SimulatedProcess.ts"
import { SimulatedProviders } from "./SimulatedProviders.ts"
import { StoreCopy } from "./StoreCopy.ts"
import { StreamBooks } from "./StreamBooks.ts"
import { TransferBooks } from "./TransferBooks.ts"
import { Watch } from "./Watch.ts"

/** The record stores a simulation works on. */
export type SimulatedStores = JobStore | JobDirectory | UploadStore | Switchboard

/** A complete installation in virtual time: stores, blobs, providers, processes, callers, and the checkers that watch them. */
export class Installation {
  readonly profile: Profile
  readonly kinds: SimulatedKinds
  readonly kernel: Kernel
  readonly network: Network
  /** Whose clock is store time. */
  readonly store: SimulatedProcess
  readonly coverage = new Coverage()
  readonly watch: Watch
  readonly claims: ClaimBooks
  readonly limits: LimitBooks
  readonly blobs: BlobBooks
  readonly money: MoneyBooks
  readonly results: ResultBooks
  readonly retention: RetentionBooks
  readonly streams: StreamBooks
  readonly signals: SignalBooks
  readonly transfers: TransferBooks
  readonly callers: ReadonlyArray<CallerContext>
  readonly lines = {
    stores: { name: "stores", away: false } as Remote,
    blobs: { name: "blobs", away: false } as Remote,
  }
  readonly #jobs: JobStore["Service"]
  readonly #directory: JobDirectory["Service"]
  readonly #uploads: UploadStore["Service"]
  readonly #board: Switchboard["Service"]
  readonly #storedBlobs = new Blobs()
  readonly #providers: SimulatedProviders
  readonly #door: RequestRouter
  #processes = 0
  #copy: StoreCopy | undefined

  constructor(
    dice: Dice,
    profile: Profile,
    stores: Context.Context<SimulatedStores>,
    trace: ((line: string) => void) | undefined,
    kinds: SimulatedKinds,
  ) {
    this.kinds = kinds
    this.profile = profile
    this.kernel = new Kernel(dice, trace)
    this.#jobs = Context.get(stores, JobStore)
    this.#directory = Context.get(stores, JobDirectory)
    this.#uploads = Context.get(stores, UploadStore)
    this.#board = Context.get(stores, Switchboard)
    this.store = new SimulatedProcess(this.kernel, "store")
    this.network = new Network(this.kernel, profile, this.store)
    this.watch = new Watch(
      this.kernel,
      this.store,
      { job: (job) => this.#readJob(job), upload: (id) => this.#read(this.#uploads.findUpload(id)) },
      this.coverage,
    )
    this.claims = new ClaimBooks(
      this.kernel,
      profile.settings,
      this.store,
      this.network,
      this.watch,
      this.coverage,
      kinds,
    )
    this.limits = new LimitBooks(this.kernel, profile.settings.limits, this.store, this.watch, this.coverage)
    this.blobs = new BlobBooks(this.kernel, this.#storedBlobs, this.watch, this.coverage)
    this.transfers = new TransferBooks(this.kernel, this.network, profile.settings.upload.leaseDurationMs)
    this.retention = new RetentionBooks(this.kernel, profile.settings, this.store, this.watch)
    this.streams = new StreamBooks(this.kernel, this.watch, this.coverage, (id) => this.#readChunks(id))
    this.signals = new SignalBooks(this.kernel, this.store, this.watch, this.coverage, profile.latencyMs)
    this.results = new ResultBooks(this.kernel, this.watch, kinds, this.coverage)
    this.money = new MoneyBooks(
      this.kernel,
      (page) => this.#read(this.#jobs.listCharges(page)).entries,
      this.watch,
      this.coverage,
      kinds,
    )
    const guards = new ProviderBooks(this.kernel, profile.settings, this.coverage)
    this.#providers = new SimulatedProviders(
      this.kernel,
      this.network,
      profile,
      this.claims,
      this.results,
      guards,
      this.watch,
    )
    this.#door = new RequestRouter(this.kernel, this.network, profile)
    this.callers = Array.from({ length: profile.callers }, (_, n) => this.#caller(n + 1))
    this.reprice()
    for (const name of switchNames) this.setSwitch(name, true)
    for (const role of profile.processes) this.#start(role)
  }

  get servers(): ReadonlyArray<Server> {
    return this.#door.servers
  }

  /** Purges that are still due. */
  get duePurges(): number {
    return this.#read(this.#jobs.listPurges(10)).length
  }

  setSwitch(name: SwitchName, on: boolean): void {
    this.#read(this.#board.setSwitch(name, on))
    this.claims.switched(name, on)
  }

  /** Puts the store's clock forward, as when a machine finds out that it was slow. */
  putClockForward(ms: number): void {
    this.kernel.trace(() => `the store's clock jumps forward by ${ms} ms`)
    this.store.clockOffsetMs += ms
    this.claims.clockPutForward(ms)
    this.transfers.clockPutForward(ms)
    this.coverage.note("the store's clock jumps forward")
  }

  /** Copies the current state of the stores; `undefined` if they cannot be copied. */
  copyStores(): StoreCopy | undefined {
    const { kernel, kinds, network, profile, store } = this
    const [jobs, blobs, line, settings] = [this.#jobs, this.#storedBlobs, this.lines.blobs, profile.settings]
    this.#copy = StoreCopy.of({ kernel, network, store, jobs, blobs, line, settings, kinds })
    return this.#copy
  }

  /** Stops everything that runs on a copy of the stores. */
  settleCopy(): void {
    if (this.#copy?.settle() === true) this.blobs.adopted(this.store.wallTimeMs, this.profile.settings.orphanGraceMs)
  }

  /** New prices for new jobs. */
  reprice(): void {
    const amount = () => `0.0${this.kernel.dice.between(1, 999)}`
    for (const [name, meters] of this.kinds.prices) {
      const amounts = Object.fromEntries(meters.map((meter) => [meter, amount()]))
      this.money.priced(this.#read(this.#board.setPrice({ name, currency: "usd", unitAmounts: amounts })))
      this.#read(this.#board.activatePrice(name, true))
    }
  }

  /** Kills a process, and starts another in its place after a while. */
  kill(server: Server): void {
    this.claims.killed(server.process)
    this.blobs.killed(server.process)
    if (server.transfers > 0) this.coverage.note("killed during a transfer")
    server.process.kill()
    this.#replace(server)
  }

  /** Asks a process to stop, and starts another in its place when it has. */
  stop(server: Server): void {
    const held = [...this.watch.jobs.values()].filter((job) => job.held).length
    server.stop(() => {
      this.kernel.trace(() => `${server.process.name} has stopped`)
      if (held > 0) this.coverage.note("a process stops and releases its jobs")
      server.process.exit()
      this.#replace(server)
    })
  }

  #replace(server: Server): void {
    this.#door.servers.splice(this.#door.servers.indexOf(server), 1)
    this.kernel.after(this.kernel.dice.between(0, 10_000), () => this.#start(server.role))
  }

  #start(role: Server["role"]): void {
    const { dice } = this.kernel
    const offset = this.network.faults.clockOffsetMs
    const rate = offset === 0 ? 1 : dice.pick([0.999, 1, 1.001])
    const process = new SimulatedProcess(this.kernel, `server${++this.#processes}`, dice.between(-offset, offset), rate)
    const line = { process, network: this.network, watch: this.watch, coverage: this.coverage }
    const stores = { ...line, remote: this.lines.stores }
    const ports = {
      jobs: remoteJobStore(stores, this.#jobs, this.claims),
      directory: remoteJobDirectory(stores, this.#directory),
      uploads: remoteUploadStore(stores, this.#uploads, this.transfers),
      board: remoteSwitchboard(stores, this.#board),
      blobs: remoteBlobStore({ process, network: this.network, remote: this.lines.blobs }, this.#storedBlobs),
      sandbox: this.#providers.of(process, "sandbox"),
      live: this.#providers.of(process, "live"),
    }
    this.#door.servers.push(new Server(this.kernel, process, role, this.profile.settings, ports, this.kinds))
  }

  #caller(n: number): CallerContext {
    const body = (number: number) => String(number).padStart(26, "0")
    const principal: Principal = {
      keyId: `key_${body(n)}`,
      projectId: `prj_${body(n % this.profile.projects)}`,
      mode: this.kernel.dice.pick(["sandbox", "live"]),
      scopes: this.kinds.scopes,
    }
    const { kernel, kinds, coverage, signals, streams, watch } = this
    const process = new SimulatedProcess(kernel, `caller${n}`)
    const parts = { kernel, door: this.#door, watch, coverage, kinds, signals, streams }
    return new CallerContext(process, principal, parts)
  }

  #readJob(job: Pick<Job, "id" | "projectId" | "keyId" | "mode">): Job | undefined {
    const [found] = this.#read(this.#jobs.findJobs([{ jobId: job.id, principal: { ...job, scopes: [] } }]))
    return found
  }

  #readChunks(jobId: JobId): ReadonlyArray<Chunk> {
    const [page] = this.#read(this.#jobs.readChunks([{ jobId, from: 0, limit: maxChunks }]))
    return page?.chunks ?? []
  }

  /** Past every line and every fault. */
  #read<A>(effect: Effect.Effect<A, unknown>): A {
    const exit = this.network.perform(effect)
    if (Exit.isSuccess(exit)) return exit.value
    throw new Error(`the store does not respond: ${String(exit.cause)}`)
  }
}
