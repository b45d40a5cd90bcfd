import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { authorize, isFinished, type Job, type JobId } from "@kiln/core/domain"
import { callerOf, defaultEngineSettings, Engine, EngineConfig, layerCrypto, layerEngine } from "@kiln/core/effect"
import { AttemptFailed, JobKind, JobKinds } from "@kiln/core/kinds"
import { type BlobStore, insideOf, JobDirectory, JobStore, MediaProbe } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import { layerSweeps, Worker } from "@kiln/core/worker"
import { memoryBlobs, MemoryStores } from "@kiln/testing"
import { Dice } from "./Dice.ts"
import { judgedGraph, stage, submitGraph } from "./simulatedGraph.ts"
import { KillableProcess } from "./KillableProcess.ts"

const processCount = 3
const stepMs = 100
/** Flows are done long before. Milliseconds of simulated time. */
const longestMs = 900_000
const leaseMs = 2_000

/** Number of clips of each film of a series. */
const shape = [4, 0, 7, 1, 12, 3, 3, 20]

/** The report of a simulation of flows. */
export interface FlowOutcome {
  readonly jobs: number
  readonly kills: number
  /** Signals that were accepted. */
  readonly signals: number
  /**
   * Parents and jobs that start after others which did not end, or not with what those and signals gave; children and follow-ups that exist twice or are missing;
   * attempts that were counted for looks.
   */
  readonly violations: ReadonlyArray<string>
}

const result = { files: [], usage: {} } as const

/** Every fifth clip fails for good, and every third needs a second attempt. */
const clip = JobKind({
  name: "clip",
  request: Schema.Struct({ film: Schema.Number, n: Schema.Number }),
  run: ({ call, engine, request: { film, n } }) =>
    Effect.gen(function* () {
      // Before the failures: nothing of it may exist then.
      const proof = yield* engine.submitWith("proof", "proof", { film })
      if (n % 5 === 4)
        return yield* new AttemptFailed({ errorCode: "content_rejected", retry: false, detail: "not wanted" })
      if (n % 3 === 2 && call.failures === 0)
        return yield* new AttemptFailed({ errorCode: "internal_error", retry: true, detail: "once more" })
      yield* Effect.sleep(50)
      return { ...result, output: { value: film * 100 + n, proof } }
    }),
})

/** Submitted with the result of a clip. */
const proof = JobKind({
  name: "proof",
  request: Schema.Struct({ film: Schema.Number }),
  run: () => Effect.succeed({ ...result, output: {} }),
})

/** Nobody waits for it. */
const note = JobKind({
  name: "note",
  request: Schema.Struct({ film: Schema.Number }),
  run: () => Effect.succeed({ ...result, output: {} }),
})

const outputsOf = (children: ReadonlyArray<{ readonly status: string; readonly output?: object | null }>) =>
  children.map((child) => (child.status === "done" ? (child.output as { readonly value: unknown }).value : null))

const film = JobKind({
  name: "film",
  request: Schema.Struct({ film: Schema.Number, clips: Schema.Number }),
  run: ({ children, engine, request: { clips, film: number }, sleep, step, waitFor }) =>
    Effect.gen(function* () {
      yield* step("before", Effect.succeed(null))
      yield* engine.submit("note", "note", { film: number })
      yield* sleep("rest", number * 300)
      const approved = yield* waitFor("approved", { timeout: "10 minutes" })
      const missing = yield* waitFor("missing", { timeout: number * 500 })
      const made = yield* children(
        "clips",
        "clip",
        Array.from({ length: clips }, (_, n) => ({ film: number, n })),
      )
      return {
        ...result,
        output: {
          value: outputsOf(made) as ReadonlyArray<number | null>,
          approved: approved.timedOut ? null : approved.value,
          missed: missing.timedOut,
        },
      }
    }),
})

const series = JobKind({
  name: "series",
  request: Schema.Struct({}),
  run: ({ children }) =>
    Effect.map(
      children(
        "films",
        "film",
        shape.map((clips, number) => ({ film: number, clips })),
      ),
      (films) => ({ ...result, output: { value: outputsOf(films) as ReadonlyArray<ReadonlyArray<number | null>> } }),
    ),
})

/** The expected end of a series. */
const expected = shape.map((clips, number) =>
  Array.from({ length: clips }, (_, n) => (n % 5 === 4 ? null : number * 100 + n)),
)

const kinds = [series, film, clip, note, proof, stage]

/** An engine with a worker, on stores that kill it. */
const startProcess = (stores: Context.Context<never>, dice: Dice, chance: number, scope: Scope.Scope) =>
  Effect.gen(function* () {
    const process = new KillableProcess()
    const reached = process.stores(stores, dice, { chance, frozenMs: 3 * leaseMs }, (verb) => verb)
    const settings = {
      ...defaultEngineSettings,
      // With one slot each, a parent that kept its own would stop everything.
      concurrency: 1,
      queueCap: 0,
      leaseDurationMs: leaseMs,
      attempts: { ...defaultEngineSettings.attempts, maxLostWorkers: 1_000 },
    }
    const services = Layer.provideMerge(Layer.merge(Worker.layer, layerSweeps), layerEngine).pipe(
      Layer.provide(Layer.succeed(EngineConfig, settings)),
      Layer.provide(Layer.succeed(JobKinds, kinds)),
      Layer.provide(Layer.succeed(Providers, { sandbox: {}, live: {} })),
      Layer.provide(Layer.succeed(MediaProbe, { probe: () => Effect.succeed({ seconds: undefined }) })),
      Layer.provide(Layer.succeedContext(reached as Context.Context<JobDirectory>)),
      Layer.provide(insideOf(memoryBlobs()) as Layer.Layer<BlobStore>),
      Layer.provide(layerCrypto),
    ) as Layer.Layer<Engine | Worker, unknown>
    // Building it calls the store too, which may kill it.
    yield* Effect.forkDetach(
      Effect.flatMap(Layer.buildWithScope(Layer.fresh(services), scope), (context) =>
        Effect.flatMap(Worker, (worker) => worker.run).pipe(Effect.provideContext(context)),
      ),
    )
    return process
  })

const grantFor = ({ keyScope }: JobKind) => {
  const grant = authorize(callerOf("sandbox", undefined, [keyScope]), keyScope)
  if (grant === undefined) throw new TypeError("the caller has no scope of the kind")
  return grant
}

/** Submits the root of the flow and a graph of jobs, from a process that lives. */
const submit = (stores: Context.Context<never>) =>
  Effect.gen(function* () {
    const layer = layerEngine.pipe(
      Layer.provide(Layer.succeed(EngineConfig, defaultEngineSettings)),
      Layer.provide(Layer.succeed(JobKinds, kinds)),
      Layer.provide(Layer.succeedContext(stores)),
      Layer.provide(insideOf(memoryBlobs()) as never),
      Layer.provide(layerCrypto),
    ) as Layer.Layer<Engine, unknown>
    const engine = Context.get(yield* Layer.build(Layer.fresh(layer)), Engine)
    const kind = engine.kinds.find(({ name }) => name === "series")
    if (kind === undefined) throw new TypeError("the simulation has no kind of its root")
    yield* submitGraph(engine, grantFor)
    return (yield* engine.createJob(grantFor(kind), kind, {}, "root")).job.id
  })

/** Approves films that are not approved yet, now and then, with values of which the first must count. */
class Approvals {
  readonly accepted = new Map<JobId, number>()
  readonly violations: Array<string> = []
  readonly #store: JobStore["Service"]
  readonly #dice: Dice
  #next = 0

  constructor(store: JobStore["Service"], dice: Dice) {
    this.#store = store
    this.#dice = dice
  }

  send(films: ReadonlyArray<Job>): Effect.Effect<void, unknown> {
    return Effect.forEach(
      films.filter((job) => job.kind === "film" && this.#dice.chance(0.03)),
      ({ id }) =>
        Effect.map(this.#store.signalJobs([{ jobId: id, name: "approved", value: this.#next++ }]), ([outcome]) => {
          const known = this.accepted.has(id)
          if (outcome === "Accepted" && known) this.violations.push(`${id} accepted two values`)
          if (outcome === "Superseded" && !known) this.violations.push(`${id} refused its first value`)
          if (outcome === "Accepted") this.accepted.set(id, this.#next - 1)
        }),
      { discard: true },
    )
  }
}

/**
 * Lets three processes with one slot each work on a job whose children have children, and on a graph of jobs that start after others, killed at random before and after each call
 * of the store, and with calls that stand still past the end of a lease, until it ends. A process that was killed is replaced after
 * a while.
 */
export const simulateFlows = (seed: number, chance = 0.01): Effect.Effect<FlowOutcome, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const dice = new Dice(seed)
      const stores = yield* Layer.build(Layer.fresh(MemoryStores.layer))
      const directory = Context.get(stores, JobDirectory)
      // A process that is killed closes nothing.
      const scope = Scope.makeUnsafe()
      const root = yield* submit(stores)
      const start = startProcess(stores, dice, chance, scope)
      const processes = yield* Effect.forEach(Array.from({ length: processCount }), () => start)
      const approvals = new Approvals(Context.get(stores, JobStore), dice)
      let kills = 0
      const earlyProofs: Array<string> = []
      for (let ms = 0; ms < longestMs; ms += stepMs) {
        yield* TestClock.adjust(stepMs)
        const [job] = yield* directory.readJobs([root])
        const now = yield* allJobs(directory)
        earlyProofs.push(...judgedProofs(now))
        if (job !== undefined && isFinished(job) && judgedGraph(now).length === 0) break
        yield* approvals.send(now)
        for (const [index, process] of processes.entries())
          if (process.isDead && dice.chance(0.1)) {
            kills += 1
            processes[index] = yield* start
          }
      }
      const jobs = yield* allJobs(directory)
      const violations = [
        ...judged(jobs, root),
        ...judgedGraph(jobs),
        ...approvals.violations,
        ...judgedWaits(jobs, approvals),
        ...earlyProofs,
        ...judgedProofs(jobs),
      ]
      return { jobs: jobs.length, kills, signals: approvals.accepted.size, violations }
    }),
  ).pipe(Effect.provide(TestClock.layer()), Effect.provide(Logger.layer([])))

const allJobs = (directory: JobDirectory["Service"]) =>
  Effect.gen(function* () {
    const { jobs } = yield* directory.listJobs({ limit: 10_000 })
    return (yield* directory.readJobs(jobs.map(({ id }) => id))).filter((job) => job !== undefined)
  })

/** A proof exists exactly if its clip is done, at any moment, and the result of the clip names it. */
const judgedProofs = (jobs: ReadonlyArray<Job>): ReadonlyArray<string> => {
  const proofs = new Set(jobs.filter(({ kind }) => kind === "proof").map(({ id }) => id))
  const named = jobs.flatMap((job) => (job.kind === "clip" && job.status === "done" ? [job.output?.["proof"]] : []))
  const missing = named.filter((id) => !proofs.delete(id as JobId))
  return [
    ...missing.map((id) => `the result of a clip names the proof ${JSON.stringify(id)}, which does not exist`),
    ...[...proofs].map((id) => `${id} is the proof of no result`),
  ]
}

/** A film has its first approval, missed the signal that nobody sends, and counts attempts that failed or lost a worker, and the last. */
const judgedWaits = (jobs: ReadonlyArray<Job>, { accepted }: Approvals): ReadonlyArray<string> =>
  jobs.flatMap((job) => {
    if (job.kind !== "film" || !isFinished(job)) return []
    const { approved, missed } = job.output ?? {}
    const found: Array<string> = []
    if (approved !== accepted.get(job.id)) found.push(`${job.id} was approved with ${JSON.stringify(approved)}`)
    if (missed !== true) found.push(`${job.id} received a signal that nobody sent`)
    return found
  })

const judged = (jobs: ReadonlyArray<Job>, root: JobId): ReadonlyArray<string> => {
  const violations = jobs
    .filter((job) => job.kind !== "note" && job.kind !== "proof" && !isFinished(job))
    .map((job) => `${job.kind} ${job.idempotencyKey} is ${job.status}`)
  const output = JSON.stringify(jobs.find(({ id }) => id === root)?.output?.["value"])
  if (output !== JSON.stringify(expected)) violations.push(`the root ended with ${output}`)
  const wanted = {
    series: 1,
    film: shape.length,
    note: shape.length,
    clip: shape.reduce((sum, clips) => sum + clips, 0),
    proof: expected.flat().filter((value) => value !== null).length,
  }
  for (const [kind, count] of Object.entries(wanted)) {
    const found = jobs.filter((job) => job.kind === kind).length
    if (found !== count) violations.push(`${found} jobs of the kind ${kind}, not ${count}`)
  }
  return violations
}
