import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as Schema from "effect/Schema"
import {
  callerOf,
  defaultEngineSettings,
  type Engine,
  EngineConfig,
  layerCrypto,
  layerEngine,
  Operator,
} from "@kiln/core/effect"
import { JobKind, JobKinds } from "@kiln/core/kinds"
import { insideOf, JobDirectory, type JobStore, ScheduleStore } from "@kiln/core/ports"
import { fireSchedules, nextTick, type Schedule, type ScheduleTiming, tickKey } from "@kiln/core/worker"
import { memoryBlobs, MemoryStores } from "@kiln/testing"
import { Dice } from "./Dice.ts"
import { KillableProcess } from "./KillableProcess.ts"

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const processCount = 5
/** Two weeks before a change to summer time in Berlin, which the simulated time passes, like the one in New York. */
const beganAt = Date.UTC(2030, 1, 20)

const schedules: Readonly<Record<string, ScheduleTiming>> = {
  halfHourly: { cron: "*/30 * * * *", timeZone: "UTC" },
  nightly: { cron: "30 2 * * *", timeZone: "Europe/Berlin" },
  workdays: { cron: "15 7 * * mon-fri", timeZone: "America/New_York" },
  often: { everyMs: 47 * minuteMs, from: beganAt + 47 * minuteMs },
}

const momentsAfterTick = [0, 100, ...Array.from({ length: 25 }, (_, minute) => (minute + 1) * minuteMs)]

/** The report of a simulation of schedules. */
export interface ScheduleOutcome {
  readonly ticks: number
  readonly kills: number
  /** Looks at schedules by processes. */
  readonly looks: number
  /** Ticks without a job or with several, and jobs without a tick. */
  readonly violations: ReadonlyArray<string>
}

const kind = JobKind({
  name: "digest",
  request: Schema.Struct({ to: Schema.String }),
  run: () => Effect.succeed({ output: {}, files: [], usage: {} }),
})

/** A clock that is right, or ahead of or behind another. */
export const clockOf = (now: () => number): Clock.Clock => ({
  currentTimeMillisUnsafe: now,
  currentTimeMillis: Effect.sync(now),
  currentTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
  currentTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
  monotonicTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
  monotonicTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
  sleep: () => Effect.never,
})

/**
 * Lets five processes look at schedules that move from project to project, for simulated days: with clocks up to a day apart, in any order, and killed at random before
 * and after each call of the store. The store's clock is the only one that is right.
 */
export const simulateSchedules = (seed: number, days: number): Effect.Effect<ScheduleOutcome, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const dice = new Dice(seed)
      let now = beganAt
      const storeClock = clockOf(() => now)
      const stores = yield* Effect.provideService(Layer.build(Layer.fresh(MemoryStores.layer)), Clock.Clock, storeClock)
      const atStore = <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.provideService(verb, Clock.Clock, storeClock)
      const scheduleStore = Context.get(stores, ScheduleStore)
      const { keyId, projectId } = callerOf("sandbox", undefined, [])
      for (const [name, timing] of Object.entries(schedules)) {
        const schedule: Schedule = {
          kind: "digest",
          request: { to: name },
          owner: { projectId, keyId, mode: "sandbox" },
          priority: "normal",
          timing,
          missed: "once",
          paused: false,
          last: null,
          refusal: null,
        }
        const nextAt = nextTick(timing, beganAt)
        yield* atStore(scheduleStore.writeSchedule(name, 0, { nextAt, document: JSON.stringify(schedule) }))
      }

      /** Gives a schedule to another owner, as a user may do while a process fires it. */
      const move = Effect.gen(function* () {
        if (!dice.chance(0.2)) return
        const name = dice.pickAny(Object.keys(schedules)) ?? ""
        const found = yield* atStore(scheduleStore.findSchedule(name))
        const [stored] = found.schedules
        if (stored === undefined) return
        const next = callerOf("sandbox", dice.pick(["a", "b", "c"]), [])
        const owner: Schedule["owner"] = { projectId: next.projectId, keyId: next.keyId, mode: "sandbox" }
        const document = JSON.stringify({ ...(JSON.parse(stored.document) as Schedule), owner })
        yield* atStore(scheduleStore.writeSchedule(name, stored.version, { nextAt: stored.nextAt, document }))
      })
      let kills = 0
      let looks = 0
      const start = (index: number) => new SimulatedLooker(stores, atStore, dice, () => now + skewOf(index), move)
      const skewOf = (index: number) => Math.round((index - 2) * 0.4 * dayMs)
      const processes = Array.from({ length: processCount }, (_, index) => ({ looker: start(index), downUntil: 0 }))

      const look = (index: number) =>
        Effect.gen(function* () {
          const process = processes[index]
          if (process === undefined || process.downUntil > now) return
          looks += 1
          if ((yield* process.looker.look) === "ended") return
          kills += 1
          // The first is soon back, so that no tick passes without any process.
          processes[index] = {
            looker: start(index),
            downUntil: now + (index === 0 ? 1 : dice.between(1, 90)) * minuteMs,
          }
        })

      const until = beganAt + days * dayMs
      const due = () => Math.min(...Object.values(schedules).map((timing) => nextTick(timing, now)))
      for (let tick = due(); tick < until; tick = due()) {
        // At once, a moment later, and then every minute for what kills have left.
        for (const laterMs of momentsAfterTick) {
          now = Math.max(now, tick + laterMs)
          yield* Effect.forEach([...processes.keys()], look, { concurrency: "unbounded", discard: true })
          const { schedules: left } = yield* atStore(scheduleStore.nextSchedules(1))
          if (laterMs > 0 && (left[0]?.nextAt ?? Infinity) > now) break
        }
      }
      const jobs = yield* atStore(jobsOf(stores))
      return { ...judged(jobs, now), kills, looks }
    }),
  ).pipe(Effect.provide(Logger.layer([])))

/** A process as far as schedules are concerned: an engine with a clock of its own, whose calls of the store may kill it. */
export class SimulatedLooker {
  readonly #process = new KillableProcess()
  readonly #context: Effect.Effect<
    Context.Context<Engine | Operator | ScheduleStore | JobDirectory | JobStore>,
    unknown
  >
  // A process that is killed closes nothing.
  readonly #scope = Scope.makeUnsafe()

  constructor(
    stores: Context.Context<never>,
    atStore: <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>,
    dice: Dice,
    now: () => number,
    /** Runs between what the process reads and what it writes. */
    meanwhile: Effect.Effect<void, unknown>,
  ) {
    const wrapped = this.#process.stores(stores, dice, { chance: 0.02 }, atStore)
    const stored = Context.get(wrapped as Context.Context<ScheduleStore>, ScheduleStore)
    const interrupted = ScheduleStore.of({
      ...stored,
      nextSchedules: (...args) => Effect.tap(stored.nextSchedules(...args), () => Effect.orDie(meanwhile)),
    })
    const engine = layerEngine.pipe(
      Layer.provide(Layer.succeed(EngineConfig, { ...defaultEngineSettings, queueCap: 0 })),
      Layer.provide(Layer.succeed(JobKinds, [kind as never])),
      Layer.provide(Layer.succeedContext(wrapped as never)),
      Layer.provide(insideOf(memoryBlobs()) as never),
      Layer.provide(layerCrypto),
      Layer.provide(Layer.succeed(Clock.Clock, clockOf(now))),
    ) as Layer.Layer<Engine | Operator, unknown>
    let built: Context.Context<Engine | Operator | ScheduleStore | JobDirectory | JobStore> | undefined
    this.#context = Effect.suspend(() =>
      built === undefined
        ? Effect.map(
            Layer.buildWithScope(Layer.fresh(engine), this.#scope),
            (services) =>
              (built = Context.add(
                Context.merge(services, wrapped as Context.Context<JobDirectory | JobStore>),
                ScheduleStore,
                interrupted,
              )),
          )
        : Effect.succeed(built),
    )
  }

  /** Looks at the schedules once, or dies on the way. */
  get look(): Effect.Effect<"ended" | "killed", unknown> {
    return this.#doing(fireSchedules)
  }

  /** Submits a job of a schedule outside of its ticks, or dies on the way. */
  runNow(name: string): Effect.Effect<"ended" | "killed", unknown> {
    return this.#doing(Operator.use((operator) => operator.runSchedule(name)))
  }

  #doing(
    effect: Effect.Effect<unknown, unknown, Engine | Operator | ScheduleStore | JobDirectory | JobStore>,
  ): Effect.Effect<"ended" | "killed", unknown> {
    return Effect.gen({ self: this }, function* () {
      // The engine is built in the fiber, because building it calls the store, which may kill it.
      const fiber = yield* Effect.forkDetach(
        Effect.flatMap(this.#context, (context) => Effect.provideContext(effect, context)),
      )
      return yield* Effect.raceFirst(
        Effect.as(Fiber.join(fiber), "ended" as const),
        Effect.as(this.#process.killed, "killed" as const),
      )
    })
  }
}

/** The idempotency keys of all jobs. */
const jobsOf = (stores: Context.Context<never>) =>
  Effect.gen(function* () {
    const directory = Context.get(stores as Context.Context<JobDirectory>, JobDirectory)
    const keys: Array<string> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ limit: 1_000, ...(after !== undefined && { after }) })
      const found = yield* directory.readJobs(page.jobs.map(({ id }) => id))
      for (const job of found) if (job !== undefined) keys.push(job.idempotencyKey)
      after = page.next
    } while (after !== undefined)
    return keys
  })

const judged = (keys: ReadonlyArray<string>, now: number): Pick<ScheduleOutcome, "ticks" | "violations"> => {
  const violations: Array<string> = []
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  let ticks = 0
  for (const [name, timing] of Object.entries(schedules))
    for (let tick = nextTick(timing, beganAt); tick <= now - 10 * minuteMs; tick = nextTick(timing, tick)) {
      ticks += 1
      const key = tickKey(name, tick)
      const count = counts.get(key) ?? 0
      if (count !== 1) violations.push(`${key} has ${count} jobs`)
      counts.delete(key)
    }
  for (const key of counts.keys()) {
    const at = Date.parse(key.split(" ")[1] ?? "")
    if (!(at > now - 10 * minuteMs && at <= now)) violations.push(`${key} is a job without a tick`)
  }
  return { ticks, violations }
}
