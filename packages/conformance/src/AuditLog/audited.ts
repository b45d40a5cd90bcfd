import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import {
  type AuditChange,
  audited,
  AuditLog,
  DeliveryStore,
  JobStore,
  KeyDirectory,
  recordedBefore,
  ScheduleStore,
  SecretStore,
  Switchboard,
} from "@kiln/core/ports"
import { create, createDone, createFailed, read } from "../arrange.ts"
import { check, type Section, type Stores } from "../Check.ts"
import { schedule } from "../JobStore/createJobsTicks.ts"
import { digest, jobId, keyId, newApiKey, newJob, ownerOf, projectId } from "../fixtures.ts"

const change = (action: string): AuditChange => ({
  actor: "user alice",
  origin: "host a",
  action,
  subject: null,
  details: { given: true },
})

const entries = Effect.flatMap(AuditLog, (log) =>
  log.list({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 }),
)
const actions = Effect.map(entries, (listed) => listed.map(({ action }) => action).toReversed())

const always = () => true
const hasTag = (tag: string) => (answer: unknown) => {
  const [first] = answer as ReadonlyArray<string | { readonly _tag: string }>
  return (typeof first === "string" ? first : first?._tag) === tag
}

const retry = newJob(2, { retryOf: jobId(1) })

/** Makes every recorded change once, each named by its verb. `wrap` is given the change, and the tag of its answer if it has one. */
const everyChange = (
  wrap: <A, E, R>(
    verb: string,
    step: Effect.Effect<A, E, R>,
    changed?: (answer: unknown) => boolean,
  ) => Effect.Effect<A, E, R>,
) =>
  Effect.gen(function* () {
    const keys = yield* KeyDirectory
    const board = yield* Switchboard
    const secrets = yield* SecretStore
    const schedules = yield* ScheduleStore
    const jobs = yield* JobStore
    const project = { id: projectId(8), name: "audited" }
    yield* wrap("createProject", keys.createProject(project))
    yield* wrap("createKey", keys.createKey(newApiKey(8, { projectId: project.id })))
    const rotation = { keyId: keyId(8), secretHash: digest(88), overlapMs: 0 }
    yield* wrap("rotateKey", keys.rotateKey(rotation), (answer) => (answer as { _tag: string })._tag === "Rotated")
    yield* wrap("revokeKey", keys.revokeKey(keyId(8)))
    yield* wrap("disableProject", keys.disableProject(project.id, true))
    yield* wrap("setSwitch", board.setSwitch("ai", true), always)
    yield* wrap("pauseKind", board.pauseKind("speech_synthesis", true), always)
    yield* wrap("limitProject", board.limitProject(project.id, 3), always)
    const price = { name: "svc-image", currency: "usd", unitAmounts: { images: "0.1" } }
    yield* wrap("setPrice", board.setPrice(price))
    yield* wrap("activatePrice", board.activatePrice("svc-image", true))
    const cap = { currency: "usd", day: "1", month: null }
    yield* wrap("setSpendCap", board.setSpendCap(project.id, cap), always)
    yield* wrap("getOrCreate", secrets.getOrCreate("audited", Uint8Array.of(1)))
    yield* wrap("replace", secrets.replace("audited", Uint8Array.of(1), Uint8Array.of(2)))
    yield* wrap("remove", secrets.remove("audited"))
    yield* wrap("writeSchedule", schedules.writeSchedule("audited", 0, { nextAt: null, document: "{}" }))
    yield* wrap("createJobs", jobs.createJobs([retry]), hasTag("Created"))
    yield* wrap("rescheduleJobs", jobs.rescheduleJobs([{ jobId: jobId(3), delayMs: 60_000 }]), hasTag("Rescheduled"))
    const [stored] = (yield* schedules.findSchedule("audited")).schedules
    const tick = { name: "audited", version: stored?.version ?? 0, tick: 1, schedule, nextAt: null, isManual: true }
    yield* wrap("createJobs of a schedule", jobs.createJobs([newJob(5, { tick })]), hasTag("Created"))
    yield* wrap("cancelJobs", jobs.cancelJobs([jobId(3)]), hasTag("Canceled"))
    yield* wrap(
      "redeliver",
      (yield* DeliveryStore).redeliver([{ jobId: jobId(4), kind: "speech_synthesis" }]),
      hasTag("Redelivered"),
    )
    yield* wrap("eraseJobs", jobs.eraseJobs([{ jobId: jobId(4), principal: ownerOf(newJob(4)) }]), hasTag("Erased"))
  })

/** Jobs 1 (failed), 3 (queued) and 4 (done). */
const arrange = Effect.gen(function* () {
  yield* createFailed(newJob(1))
  yield* createDone(newJob(4))
  yield* create(newJob(3))
})

/** Everything that `everyChange` changes. */
const state = Effect.gen(function* () {
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  return {
    projects: yield* keys.listProjects,
    keys: yield* keys.listKeys,
    board: yield* board.readBoard,
    prices: yield* board.listPrices,
    spending: yield* board.listSpending,
    secret: yield* (yield* SecretStore).find("audited"),
    deliveries: yield* (yield* DeliveryStore).listDeliveries(10),
    schedules: (yield* (yield* ScheduleStore).listSchedules).schedules,
    jobs: [yield* read(newJob(3)), yield* read(newJob(4))].map(({ claimableAt, retained, status }) => ({
      claimableAt,
      retained,
      status,
    })),
    retried: yield* (yield* JobStore).findByIdempotencyKey(retry.keyId, retry.idempotencyKey),
  }
})

export const auditedVerbs: Section<AuditLog | Stores> = {
  name: "AuditLog, audited verbs",
  checks: [
    check(
      "every change of an operator is recorded once, in its order, and nothing without a change to record",
      Effect.gen(function* () {
        yield* arrange
        const verbs: Array<string> = []
        yield* everyChange((verb, step, changed) => {
          verbs.push(verb)
          return audited(change(verb), step, changed)
        })
        expect(yield* actions).toEqual(verbs)
        for (const entry of yield* entries) expect(entry).toMatchObject(change(entry.action))
        // Reads, and writes outside of a change.
        yield* audited(change("none"), (yield* KeyDirectory).listKeys, always)
        yield* (yield* Switchboard).setSwitch("ai", false)
        yield* audited(change("none"), recordedBefore((yield* Switchboard).setSwitch("ai", true)), always)
        expect(yield* actions).toEqual(verbs)
      }),
    ),

    check(
      "a change whose entry cannot be made is not made",
      Effect.gen(function* () {
        yield* arrange
        const before = yield* state
        const refused: Array<string> = []
        yield* everyChange((verb, step) => {
          const unrecorded = audited(change(verb), step, () => {
            throw new Error("the entry cannot be made")
          })
          return Effect.flatMap(Effect.exit(unrecorded), (exit) => {
            if (Exit.isFailure(exit)) refused.push(verb)
            // The following steps need an answer, and do not look at it.
            return Effect.succeed(undefined as never)
          })
        })
        expect(yield* state).toEqual(before)
        expect(yield* entries).toEqual([])
        expect(refused).toHaveLength(21)
      }),
    ),

    check(
      "a verb that changes nothing records nothing",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        const secrets = yield* SecretStore
        const jobs = yield* JobStore
        yield* audited(change("none"), keys.revokeKey(keyId(70)))
        yield* audited(change("none"), keys.disableProject(projectId(70), true))
        yield* audited(change("none"), (yield* Switchboard).activatePrice("svc-image", true))
        yield* audited(change("none"), secrets.remove("nothing"))
        yield* audited(change("none"), (yield* ScheduleStore).writeSchedule("nothing", 7, null))
        yield* audited(change("none"), secrets.replace("nothing", Uint8Array.of(1), Uint8Array.of(2)))
        yield* audited(change("none"), jobs.cancelJobs([jobId(70)]), hasTag("Canceled"))
        yield* audited(change("none"), jobs.rescheduleJobs([{ jobId: jobId(70), delayMs: 0 }]), hasTag("Rescheduled"))
        yield* audited(change("none"), jobs.createJobs([newJob(2, { retryOf: jobId(70) })]), hasTag("Created"))
        expect(yield* entries).toEqual([])
      }),
    ),

    check(
      "details of the answer are added to those of the change",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const detailsOf = (answer: unknown) => ({ version: (answer as { readonly version: number }).version })
        const price = { name: "svc-image", currency: "usd", unitAmounts: { images: "0.1" } }
        yield* audited(change("setPrice"), board.setPrice(price), always, detailsOf)
        expect(yield* entries).toMatchObject([{ details: { given: true, version: 1 } }])
      }),
    ),
  ],
}
