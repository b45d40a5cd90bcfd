import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob, ScheduleStore } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newJob } from "../fixtures.ts"

const otherKey = keyId(7)

type Tick = NonNullable<NewJob["tick"]>

export const schedule: Tick["schedule"] = {
  kind: "image_generation",
  request: {},
  owner: { projectId: newJob(1).projectId, keyId: newJob(1).keyId, mode: "sandbox" },
  priority: "normal",
  timing: { everyMs: 60_000, from: 0 },
  missed: "once",
  paused: false,
  last: null,
  refusal: "queue_full",
}

const name = "nightly"

/** Writes the schedule, due at 1,000, and returns the job of its tick. */
const due = Effect.gen(function* () {
  const store = yield* ScheduleStore
  yield* store.writeSchedule(name, 0, { nextAt: 1_000, document: JSON.stringify(schedule) })
  const { version } = yield* stored
  const tick: Tick = { name, version, tick: 1_000, schedule, nextAt: 61_000 }
  return (n: number, changes: Partial<NewJob> = {}): NewJob => ({
    ...newJob(n, changes),
    idempotencyKey: "tick",
    fingerprint: digest(7),
    tick,
  })
})

const stored = Effect.gen(function* () {
  const {
    schedules: [found],
  } = yield* (yield* ScheduleStore).findSchedule(name)
  if (found === undefined) throw new Error("there is no schedule")
  return found
})

export const createJobsTicks: Section<JobStore | ScheduleStore> = {
  name: "JobStore.createJobs: ticks",
  checks: [
    check(
      "the job of a tick and the advance of its schedule are one step",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        const before = yield* stored
        expect(yield* jobs.createJobs([jobOf(1)])).toMatchObject([{ _tag: "Created", job: { id: jobOf(1).id } }])
        const after = yield* stored
        expect(after.nextAt).toBe(61_000)
        expect(after.version).toBeGreaterThan(before.version)
        const last = { tick: 1_000, jobId: jobOf(1).id }
        expect(JSON.parse(after.document)).toEqual({ ...schedule, last, refusal: null })
      }),
    ),
    check(
      "a tick has one job, also for another owner, in the same call and later",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        const first = yield* jobs.createJobs([jobOf(1), jobOf(2, { keyId: otherKey }), newJob(3), jobOf(4)])
        expect(first.map(({ _tag }) => _tag)).toEqual(["Created", "TickTaken", "Created", "TickTaken"])
        expect(yield* jobs.createJobs([jobOf(5, { keyId: otherKey })])).toEqual([{ _tag: "TickTaken" }])
        expect(yield* jobs.createJobs([jobOf(1)])).toEqual([{ _tag: "TickTaken" }])
      }),
    ),
    check(
      "of many calls at once for one tick, one creates a job",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        const outcomes = yield* Effect.forEach(
          Array.from({ length: 8 }, (_, n) => n + 1),
          (n) => jobs.createJobs([jobOf(n, n % 2 === 0 ? {} : { keyId: otherKey })]),
          { concurrency: "unbounded" },
        )
        expect(
          outcomes
            .flat()
            .map(({ _tag }) => _tag)
            .toSorted(),
        ).toEqual(["Created", ...Array(7).fill("TickTaken")])
      }),
    ),
    check(
      "a schedule that was changed or removed gets no job by what was read before",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const schedules = yield* ScheduleStore
        const jobOf = yield* due
        const { document, nextAt, version } = yield* stored
        yield* schedules.writeSchedule(name, version, { nextAt, document })
        expect(yield* jobs.createJobs([jobOf(1)])).toEqual([{ _tag: "TickTaken" }])
        yield* schedules.writeSchedule(name, (yield* stored).version, null)
        expect(yield* jobs.createJobs([jobOf(1)])).toEqual([{ _tag: "TickTaken" }])
        expect((yield* schedules.findSchedule(name)).schedules).toEqual([])
      }),
    ),
    check(
      "a refused job leaves its tick to the next try",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        yield* jobs.createJobs([newJob(1)])
        expect(yield* jobs.createJobs([jobOf(2, { queueCap: 1 })])).toMatchObject([{ _tag: "QueueFull" }])
        expect(yield* stored).toMatchObject({ nextAt: 1_000 })
        expect(yield* jobs.createJobs([jobOf(2, { queueCap: 2 })])).toMatchObject([{ _tag: "Created" }])
        expect(yield* stored).toMatchObject({ nextAt: 61_000 })
      }),
    ),
    check(
      "the last tick leaves the schedule without a next one",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const last = (yield* due)(1)
        const tick: Tick = { ...(last.tick as Tick), nextAt: null }
        expect(yield* jobs.createJobs([{ ...last, tick }])).toMatchObject([{ _tag: "Created" }])
        expect(yield* stored).toMatchObject({ nextAt: null })
        expect((yield* (yield* ScheduleStore).nextSchedules(10)).schedules).toEqual([])
      }),
    ),
    check(
      "of many jobs outside of the ticks at once, one is created; it is noted in the schedule, whose tick stays as it is",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        const manual = (n: number): NewJob => {
          const job = jobOf(n, { keyId: n % 2 === 0 ? otherKey : newJob(n).keyId })
          const tick: Tick = {
            ...(job.tick as Tick),
            tick: 500,
            nextAt: 1_000,
            isManual: true,
          }
          return { ...job, idempotencyKey: `run ${n}`, tick }
        }
        const outcomes = yield* Effect.forEach(
          Array.from({ length: 6 }, (_, n) => n + 1),
          (n) => jobs.createJobs([manual(n)]),
          { concurrency: "unbounded" },
        )
        const created = outcomes.flat().flatMap((outcome) => (outcome._tag === "Created" ? [outcome.job.id] : []))
        expect(created).toHaveLength(1)
        const { document, nextAt } = yield* stored
        expect(nextAt).toBe(1_000)
        expect(JSON.parse(document)).toEqual({ ...schedule, manual: { at: 500, jobId: created[0] } })
      }),
    ),
    check(
      "a job that the tick has from before advances its schedule",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const jobOf = yield* due
        yield* jobs.createJobs([{ ...jobOf(1), tick: undefined }])
        expect(yield* jobs.createJobs([jobOf(2)])).toMatchObject([{ _tag: "Replayed", job: { id: jobOf(1).id } }])
        const after = yield* stored
        expect(after.nextAt).toBe(61_000)
        expect(JSON.parse(after.document)).toMatchObject({ last: { tick: 1_000, jobId: jobOf(1).id } })
      }),
    ),
  ],
}
