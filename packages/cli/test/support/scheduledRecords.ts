import { fixtures } from "@kiln/conformance"
import { withSubmitted } from "@kiln/core/domain"
import { withDelivery } from "@kiln/core/rules"
import { DeliveryStore, JobDirectory, JobStore, ScheduleStore } from "@kiln/core/ports"
import type { Schedule } from "@kiln/core/worker"
import * as Effect from "effect/Effect"

const { digest, jobId, keyId, newJob, projectId } = fixtures

/** A schedule of project 1, as an engine stores it. */
const scheduleOf = (overrides: Partial<Schedule> = {}): Schedule => ({
  kind: "speech_synthesis",
  request: { input: "a canary that no command prints" },
  owner: { projectId: projectId(1), keyId: keyId(1), mode: "sandbox" },
  priority: "normal",
  timing: { cron: "0 7 * * mon-fri", timeZone: "Europe/Berlin" },
  missed: "once",
  paused: false,
  last: null,
  refusal: null,
  ...overrides,
})

/** Writes a new schedule; paused ones have no next tick. */
export const writeSchedule = (name: string, nextAt: number | null, overrides: Partial<Schedule> = {}) =>
  Effect.gen(function* () {
    const document = JSON.stringify(scheduleOf({ paused: nextAt === null, ...overrides }))
    if (!(yield* (yield* ScheduleStore).writeSchedule(name, 0, { nextAt, document })))
      throw new Error(`the schedule ${name} exists`)
  })

export const parent = { jobId: jobId(80), step: "scenes" }
const submitted = { tags: ["weekly"], metadata: { customer: "c1" }, context: { locale: "de" } }
export const unique = { scope: digest(80), while: "unfinished" } as const

/**
 * Jobs of the features that came with schedules: 80 is a parent, tagged and unique; 81 and 82 are its children, one of them finished;
 * 83 and 84 are canceled and wait for `onFinished`, and 84 was called twice.
 */
export const seedSchedulesAndFlows = Effect.gen(function* () {
  const jobs = yield* JobStore
  const deliveries = yield* DeliveryStore
  const child = (n: number) => newJob(n, { metadata: withSubmitted({}, { parent }) })
  const delivered = (n: number) => newJob(n, { metadata: withDelivery(withSubmitted({}, submitted)) })
  yield* jobs.createJobs([
    newJob(80, { unique, metadata: withSubmitted({ note: "kept" }, submitted) }),
    child(81),
    child(82),
    delivered(83),
    delivered(84),
  ])
  yield* jobs.cancelJobs([jobId(82), jobId(84)])
  for (const token of [1, 3]) {
    yield* deliveries.claimDeliveries({ kinds: ["speech_synthesis"], limit: 1, leaseDurationMs: 60_000 })
    yield* deliveries.settleDeliveries([
      { jobId: jobId(84), token, retryInMs: token === 1 ? 0 : 3_600_000, counts: true },
    ])
  }
  yield* jobs.cancelJobs([jobId(83)])
  yield* writeSchedule("nightly", 5_000, { last: { tick: 4_000, jobId: jobId(80) } })
  yield* writeSchedule("hourly", 6_000, { timing: { everyMs: 3_600_000, from: 1_000 }, refusal: "queue_full" })
  yield* writeSchedule("paused", null)
})

/** What a store knows of them. */
export const readSchedulesAndFlows = Effect.gen(function* () {
  const directory = yield* JobDirectory
  const listed = (label: string) =>
    Effect.map(directory.listJobs({ limit: 100, labels: [label] }), ({ jobs }) => jobs.map(({ id }) => id))
  return {
    tagged: yield* listed("#weekly"),
    ofCustomer: yield* listed('"customer":"c1"'),
    children: yield* listed(`^${parent.jobId}`),
    ofStep: yield* listed(`^${parent.jobId} ${parent.step}`),
    jobs: yield* directory.readJobs([80, 81, 82, 83, 84].map(jobId)),
    deliveries: yield* (yield* DeliveryStore).listDeliveries(100),
    schedules: (yield* (yield* ScheduleStore).listSchedules).schedules,
  }
})
