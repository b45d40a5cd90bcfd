import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { type Job, type JobStatus, submittedOf } from "@kiln/core/domain"
import { callerOf, decodeSchedule } from "@kiln/core/effect"
import { JobDirectory, JobStore, ScheduleStore, type StoredSchedule } from "@kiln/core/ports"
import { nextTick, type Schedule } from "@kiln/core/worker"
import { MemoryStores } from "@kiln/testing"
import { Dice } from "./Dice.ts"
import { clockOf, SimulatedLooker } from "./simulateSchedules.ts"

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const processCount = 3
/** Half a day before a change to summer time in Berlin. */
const beganAt = Date.UTC(2030, 2, 30, 12)

type Rules = Pick<Schedule, "timing" | "missed"> & Partial<Pick<Schedule, "overlap" | "endsAt" | "jitterMs" | "tags">>

const berlin = (cron: string): Schedule["timing"] => ({ cron, timeZone: "Europe/Berlin" })
const every = (minutes: number): Schedule["timing"] => ({
  everyMs: minutes * minuteMs,
  from: beganAt + minutes * minuteMs,
})

const schedules: Readonly<Record<string, Rules>> = {
  skipping: { timing: berlin("*/20 * * * *"), missed: "once", overlap: "skip" },
  skippingAll: { timing: every(31), missed: "skip", overlap: "skip", jitterMs: 5 * minuteMs },
  waitingOnce: { timing: berlin("*/15 1-4 * * *"), missed: "once", overlap: "queue" },
  waitingEach: { timing: berlin("5,35 * * * *"), missed: "each", overlap: "queue", tags: ["each"] },
  backfilled: { timing: every(13), missed: "each" },
  backfilledSkipping: { timing: every(47), missed: "each", overlap: "skip" },
  ending: { timing: every(29), missed: "each", endsAt: beganAt + dayMs / 2 },
}
const names = Object.keys(schedules)

/** The report of a simulation of the rules of schedules. */
export interface ScheduleRulesOutcome {
  /** Ticks that were handled. */
  readonly ticks: number
  readonly jobs: number
  readonly skipped: number
  /** Jobs outside of the ticks. */
  readonly manual: number
  readonly kills: number
  readonly violations: ReadonlyArray<string>
}

/**
 * Lets three processes with skewed clocks fire schedules with rules for overlapping jobs, missed ticks and an end, for simulated days: killed
 * at random, all of them away for hours at times, while jobs finish at random, operators submit jobs outside of the ticks, and schedules move from
 * project to project.
 */
export const simulateScheduleRules = (seed: number, days: number): Effect.Effect<ScheduleRulesOutcome, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const dice = new Dice(seed)
      let now = beganAt
      const storeClock = clockOf(() => now)
      const stores = yield* Effect.provideService(Layer.build(Layer.fresh(MemoryStores.layer)), Clock.Clock, storeClock)
      const atStore = <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.provideService(verb, Clock.Clock, storeClock)
      const scheduleStore = Context.get(stores, ScheduleStore)
      const jobStore = Context.get(stores, JobStore)
      yield* setSchedules(scheduleStore, atStore)
      const stored = atStore(Effect.map(scheduleStore.listSchedules, ({ schedules: all }) => all))
      const violations: Array<string> = []
      let kills = 0

      const move = Effect.gen(function* () {
        if (!dice.chance(0.1)) return
        const { schedules: found } = yield* atStore(scheduleStore.findSchedule(dice.pickAny(names) ?? ""))
        const [schedule] = found
        if (schedule === undefined) return
        const document = JSON.stringify({ ...decodeSchedule(schedule), owner: ownerOf(dice.pick(["a", "b"])) })
        yield* atStore(
          scheduleStore.writeSchedule(schedule.name, schedule.version, { nextAt: schedule.nextAt, document }),
        )
      })
      const start = (index: number) =>
        new SimulatedLooker(stores, atStore, dice, () => now + (index - 1) * 7 * hourMs, move)
      const processes = Array.from({ length: processCount }, (_, index) => ({ looker: start(index), downUntil: 0 }))
      const act = (index: number) =>
        Effect.gen(function* () {
          const process = processes[index]
          if (process === undefined || process.downUntil > now) return
          const runsOne = dice.chance(0.03)
          const { looker } = process
          const ended = yield* runsOne ? looker.runNow(dice.pickAny(names) ?? "") : looker.look
          if (ended === "ended") return
          kills += 1
          processes[index] = { looker: start(index), downUntil: now + dice.between(0, 40) * minuteMs }
        })

      /** Compares the unfinished jobs with the rules, and ends some of them. */
      const finishSome = Effect.gen(function* () {
        const unfinished = yield* atStore(allJobs(stores, "queued"))
        for (const [name, ofSchedule] of Map.groupBy(unfinished, nameOf))
          if ((schedules[name]?.overlap ?? "allow") !== "allow" && ofSchedule.length > 1)
            violations.push(`${name} has ${ofSchedule.length} unfinished jobs at ${new Date(now).toISOString()}`)
        const ending = unfinished.filter(() => dice.chance(0.4)).map(({ id }) => id)
        if (ending.length > 0) yield* atStore(jobStore.cancelJobs(ending))
      })

      const until = beganAt + days * dayMs
      while (now < until) {
        // At times, nothing runs for hours: a day has more ticks than are backfilled.
        now += dice.chance(0.01) ? dice.between(1, 30) * hourMs : dice.between(1, 9) * minuteMs
        for (let looks = dice.between(1, 3); looks > 0; looks--)
          yield* Effect.forEach([...processes.keys()], act, { concurrency: "unbounded", discard: true })
        if (dice.chance(0.3)) yield* finishSome
      }
      const jobs = yield* atStore(allJobs(stores))
      return { ...judged(yield* stored, jobs, violations), kills }
    }),
  ).pipe(Effect.provide(Logger.layer([])))

const ownerOf = (project: string | undefined): Schedule["owner"] => {
  const { keyId, projectId } = callerOf("sandbox", project, [])
  return { projectId, keyId, mode: "sandbox" }
}

const setSchedules = Effect.fnUntraced(function* (
  store: ScheduleStore["Service"],
  atStore: <A, E, R>(verb: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>,
) {
  for (const [name, rules] of Object.entries(schedules)) {
    const schedule: Schedule = {
      kind: "digest",
      request: { to: name },
      owner: ownerOf(undefined),
      priority: "normal",
      paused: false,
      last: null,
      refusal: null,
      ...rules,
    }
    const nextAt = nextTick(rules.timing, beganAt)
    yield* atStore(store.writeSchedule(name, 0, { nextAt, document: JSON.stringify(schedule) }))
  }
})

/** Compares the jobs and the skipped ticks of all schedules with their ticks. */
const judged = (
  stored: ReadonlyArray<StoredSchedule>,
  jobs: ReadonlyArray<Job>,
  found: ReadonlyArray<string>,
): Omit<ScheduleRulesOutcome, "kills"> => {
  const violations = [...found]
  let ticks = 0
  let skippedTicks = 0
  let ofTicks = 0
  for (const entry of stored) {
    const { name, nextAt } = entry
    const schedule = decodeSchedule(entry)
    const handled = ticksOf(schedule, nextAt)
    const own = jobs.filter((job) => nameOf(job) === name && job.idempotencyKey.startsWith("schedule "))
    violations.push(...wrongJobs(name, own, handled))
    const skipped = schedule.skipped?.count ?? 0
    if (own.length + skipped !== handled.length)
      violations.push(`${name} had ${handled.length} ticks, ${own.length} jobs and ${skipped} skipped ticks`)
    ticks += handled.length
    ofTicks += own.length
    skippedTicks += skipped
  }
  return { ticks, jobs: ofTicks, skipped: skippedTicks, manual: jobs.length - ofTicks, violations }
}

const nameOf = (job: Job): string => submittedOf(job).schedule?.name ?? ""

/** Returns the ticks before the next one, or all if the schedule has ended. */
const ticksOf = ({ endsAt = Infinity, timing }: Schedule, nextAt: number | null): ReadonlyArray<number> => {
  const ticks: Array<number> = []
  for (let tick = nextTick(timing, beganAt); tick < (nextAt ?? Infinity) && tick <= endsAt;)
    tick = (ticks.push(tick), nextTick(timing, tick))
  return ticks
}

/**
 * Returns what is wrong with the jobs of a schedule's ticks. The chain of their ticks shows the order in which they were submitted.
 */
const wrongJobs = (name: string, jobs: ReadonlyArray<Job>, ticks: ReadonlyArray<number>): ReadonlyArray<string> => {
  const known = new Set(ticks)
  const wrong: Array<string> = []
  const tickOf = (job: Job) => submittedOf(job).schedule ?? { previousAt: null, tickAt: 0 }
  let before: number | null = null
  let createdAt = 0
  for (const job of jobs.toSorted((a, b) => tickOf(a).tickAt - tickOf(b).tickAt)) {
    const { previousAt, tickAt } = tickOf(job)
    if (!known.has(tickAt)) wrong.push(`${name} has a job without a tick at ${new Date(tickAt).toISOString()}`)
    if (tickAt === before) wrong.push(`${name} has two jobs of ${new Date(tickAt).toISOString()}`)
    if (job.createdAt < createdAt)
      wrong.push(`${name} has its job of ${new Date(tickAt).toISOString()} before an earlier one`)
    if (previousAt !== before) wrong.push(`${name} has a gap before ${new Date(tickAt).toISOString()}`)
    before = tickAt
    createdAt = job.createdAt
  }
  return wrong
}

/** All jobs, or those of a status. No worker runs here, so a job is queued until it is canceled. */
const allJobs = (stores: Context.Context<never>, status?: JobStatus) =>
  Effect.gen(function* () {
    const directory = Context.get(stores as Context.Context<JobDirectory>, JobDirectory)
    const jobs: Array<Job> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status, limit: 1_000, ...(after !== undefined && { after }) })
      for (const job of yield* directory.readJobs(page.jobs.map(({ id }) => id))) if (job !== undefined) jobs.push(job)
      after = page.next
    } while (after !== undefined)
    return jobs
  })
