import fc from "fast-check"
import { type Charge, errorCodes, type Job } from "@kiln/core/domain"
import { applyEvent, created, jobTransitions, strongerWarning } from "@kiln/core/rules"
import { charge, digest, jobId, keyId, outputFile, projectId, uploadId } from "../../src/fixtures.ts"
import type { JobMoveName } from "../../src/model/jobChange.ts"

/** One move of a job, made by the table itself. */
export interface Move {
  readonly before: Job | undefined
  readonly after: Job | undefined
  readonly event: JobMoveName
  readonly verb: string
  readonly now: number
}

const price = { name: "svc-audio", version: 1, currency: "usd", unitAmounts: { input_characters: "0.1" } }

const start = fc.record({
  mode: fc.constantFrom("sandbox" as const, "live" as const),
  queueLimitMs: fc.constantFrom(2_000, 9_000, 60_000),
  runLimitMs: fc.constantFrom(700, 3_000, 60_000),
  createdAt: fc.constantFrom(0, 1, 1_000_000),
  delayMs: fc.constantFrom(0, 0, 1, 300, 3_000),
  uploadId: fc.constantFrom(null, uploadId(1)),
})

const step = fc.record({
  waitMs: fc.constantFrom(0, 0, 1, 299, 300, 301, 1_000, 3_000, 30_000),
  event: fc.constantFrom(
    ...(["claimed", "claimed", "claimed", "claimed", "claimed", "abandoned"] as const),
    ...([
      "extended",
      "extended",
      "checkpointed",
      "checkpointed",
      "deferred",
      "deferred",
      "parked",
      "woken",
      "rescheduled",
      "replaced",
      "replaced",
      "released",
      "postponed",
      "postponed",
    ] as const),
    ...([
      "completed",
      "completed",
      "failed",
      "expired",
      "lost",
      "canceled",
      "refused",
      "retried",
      "erased",
      "erased",
      "removed",
    ] as const),
  ),
  leaseDurationMs: fc.constantFrom(300, 1_000, 5_000),
  delayMs: fc.constantFrom(0, 1, 400, 3_000),
  countsAsFailure: fc.boolean(),
  errorCode: fc.constantFrom(...errorCodes),
  step: fc.constantFrom("reply", "speak", "__proto__", "transcribe"),
  value: fc.jsonValue({ maxDepth: 1 }),
  warningCode: fc.constantFrom(null, "output_truncated" as const),
  byAge: fc.boolean(),
  files: fc.nat(1),
})
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

/** Random lives of one job, each with every move it made. */
export const walks: fc.Arbitrary<ReadonlyArray<Move>> = fc
  .tuple(start, fc.array(step, { minLength: 8, maxLength: 60, size: "max" }))
  .map(([from, steps]) => {
    const moves: Array<Move> = [creation(from)]
    let job = moves[0]?.after
    let now = from.createdAt
    for (const one of steps) {
      if (job === undefined) break
      now += one.waitMs
      const made = moveOf(job, one, now)
      if (made === undefined) continue
      moves.push(made)
      job = made.after
    }
    return moves
  })

const creation = (from: typeof start extends fc.Arbitrary<infer A> ? A : never): Move => ({
  before: undefined,
  after: {
    ...created(from.createdAt, from, from.delayMs),
    id: jobId(1),
    projectId: projectId(1),
    keyId: keyId(1),
    mode: from.mode,
    kind: "speech_synthesis",
    kindVersion: 1,
    uploadId: from.uploadId,
    priority: "normal",
    idempotencyKey: "idempotency-1",
    fingerprint: digest(1),
    price: from.mode === "live" ? price : null,
    metadata: { model: "small" },
    createdAt: from.createdAt,
    retained: "kept",
    request: { input: "text" },
    checkpoints: {},
    output: null,
    files: [],
    warningCode: null,
    charge: null,
  },
  event: "created",
  verb: "createJobs",
  now: from.createdAt,
})

const moveOf = (before: Job, one: Step, now: number): Move | undefined => {
  if (one.event === "removed") {
    const finished = before.status === "done" || before.status === "failed"
    return finished ? { before, after: undefined, event: "removed", verb: "deleteJobs", now } : undefined
  }
  if (one.event === "retried") {
    if (before.status !== "failed" || before.retained !== "kept") return undefined
    return { before, after: { ...before, uploadId: null }, event: "retried", verb: "createJobs", now }
  }
  if (one.event === "erased" && (before.retained === "deleted" || (before.retained === "expired" && one.byAge)))
    return undefined
  const state = applyEvent(
    before,
    {
      ...one,
      event: one.event,
      until: now + one.delayMs,
      at: now + one.delayMs,
      since: now - one.delayMs,
      isCharged: one.byAge,
      limits: before,
      ...tokenOf(before),
    },
    now,
  )
  if (state === undefined) return undefined
  const verb = one.event === "erased" && one.byAge ? "expireData" : jobTransitions[one.event].verb
  return { before, after: { ...before, ...state, ...dataOf(before, one) }, event: one.event, verb, now }
}

const tokenOf = ({ token, createdAt }: Job) => ({ token, createdAt })

const dataOf = (before: Job, one: Step): Partial<Job> => {
  const paid: Charge | null = before.mode === "live" ? charge : null
  switch (one.event) {
    case "replaced":
      return { idempotencyKey: `${before.idempotencyKey}-again`, request: { input: "later text" } }
    case "checkpointed":
      return { checkpoints: Object.fromEntries([...Object.entries(before.checkpoints), [one.step, one.value]]) }
    case "completed":
      return {
        checkpoints: {},
        output: { text: "done" },
        files: one.files === 0 ? [] : [outputFile({ job: before, token: before.token }, 1)],
        warningCode: one.warningCode,
        charge: paid,
      }
    case "erased": {
      const warning = one.byAge ? "data_expired" : "data_deleted"
      return {
        retained: one.byAge ? "expired" : "deleted",
        request: null,
        checkpoints: {},
        output: null,
        files: [],
        warningCode: strongerWarning(before.warningCode ?? undefined, warning) ?? null,
      }
    }
    default:
      return {}
  }
}
