import { expect } from "vitest"
import fc from "fast-check"
import type { Board, Job, Upload } from "@kiln/core/domain"
import type { JobFacts } from "@kiln/core/rules"
import type { CreateOutcome, NewJob } from "@kiln/core/ports"
import type { Schedule } from "@kiln/core/worker"

/** The function under examination. */
export interface Acceptance {
  readonly judgeJob: (job: NewJob, facts: JobFacts) => CreateOutcome
}

const NOW = 1_000_000

/** A situation with one value per check: the contents of the request and of the store. */
interface Situation {
  readonly storage: "no cap" | "room" | "full"
  readonly tick: "none" | "due" | "taken" | "removed"
  readonly key: "free" | "same request" | "other request"
  /** The job that took the scope last; `none` if the job need not be unique. */
  readonly scope: "none" | "free" | "queued" | "overdue" | "processing" | "finished" | "fresh" | "old"
  readonly until: "queued" | "unfinished" | 500
  readonly replaces: boolean
  readonly retry: "none" | "possible" | "unknown" | "done" | "erased" | "upload gone" | "upload fault"
  readonly gate: "none" | "open" | "free" | "no price" | "no meter" | "switched off" | "forced off" | "unserved"
  readonly upload:
    | "none"
    | "ready"
    | "unknown"
    | "used"
    | "the holder's"
    | "erased"
    | "too old"
    | "in transfer"
    | "never came"
  readonly spending: "no cap" | "room" | "over" | "unbounded"
  readonly queue: "no cap" | "room" | "full" | "overfull"
}

const situations: fc.Arbitrary<Situation> = fc.record({
  storage: fc.constantFrom("no cap", "room", "full"),
  tick: fc.constantFrom("none", "none", "none", "due", "due", "taken", "removed"),
  key: fc.constantFrom("free", "free", "free", "same request", "other request"),
  scope: fc.constantFrom(
    "none",
    "none",
    "none",
    "free",
    "queued",
    "queued",
    "overdue",
    "processing",
    "finished",
    "fresh",
    "old",
  ),
  until: fc.constantFrom<Situation["until"]>("queued", "unfinished", 500),
  replaces: fc.boolean(),
  retry: fc.constantFrom(
    "none",
    "none",
    "possible",
    "possible",
    "unknown",
    "done",
    "erased",
    "upload gone",
    "upload fault",
  ),
  gate: fc.constantFrom("none", "open", "free", "no price", "no meter", "switched off", "forced off", "unserved"),
  upload: fc.constantFrom(
    "none",
    "ready",
    "unknown",
    "used",
    "the holder's",
    "erased",
    "too old",
    "in transfer",
    "never came",
  ),
  spending: fc.constantFrom("no cap", "no cap", "room", "room", "over", "unbounded"),
  queue: fc.constantFrom("no cap", "room", "full", "overfull"),
})

const price = { name: "svc-audio", version: 3, currency: "usd", unitAmounts: { input_characters: "0.01" } }
const requestOf = ({
  gate,
  queue,
  replaces,
  retry,
  scope,
  spending,
  storage,
  tick,
  until,
  upload,
}: Situation): NewJob => ({
  ...(storage !== "no cap" && { storageCap: 10 }),
  ...(tick !== "none" && { tick: { name: "nightly", version: 3, tick: 5, nextAt: 6, schedule: {} as Schedule } }),
  id: "job_new",
  projectId: "prj_a",
  keyId: "key_a",
  mode: "live",
  kind: "speech_synthesis",
  kindVersion: 2,
  request: { text: "x" },
  priority: "high",
  delayMs: 7.5,
  metadata: { a: 1 },
  retryOf: retry === "none" ? null : "job_failed",
  ...(scope !== "none" && { unique: { scope: "s", while: until, replaces } }),
  uploadId: upload === "none" ? null : "upl_a",
  maxTransfers: 2,
  idempotencyKey: "k",
  fingerprint: "mine",
  gate:
    gate === "none"
      ? null
      : {
          price: gate === "free" ? null : "svc-audio",
          meters: gate === "no meter" ? ["input_characters", "images"] : ["input_characters"],
          switches: ["ai", "audio"],
          liveWorker: { kind: "speech_synthesis", withinMs: 500 },
        },
  maxUsage: spending === "unbounded" ? {} : { input_characters: 2 },
  forcedOff: gate === "forced off" ? ["audio"] : [],
  limits: { queueLimitMs: 60_000, runLimitMs: 1_000 },
  queueCap: queue === "no cap" ? 0 : 3,
})

const prerequisites = { "kiln:submitted": { after: ["job_before"] } }

const jobWith = (changes: Partial<Job>): Job => changes as Job

/** Created exactly at the end of its time, unless it is `fresh`. */
const holderIn = ({ scope }: Situation): Job | undefined => {
  if (scope === "none" || scope === "free") return undefined
  const status = scope === "overdue" ? "queued" : scope === "queued" || scope === "processing" ? scope : "done"
  return jobWith({
    id: "job_holder",
    status,
    token: 0,
    held: status === "processing",
    projectId: "prj_a",
    keyId: "key_a",
    mode: "live",
    kind: "speech_synthesis",
    metadata: { b: 2, ...prerequisites },
    ranMs: 0,
    attempts: 0,
    failures: 0,
    lostWorkers: 0,
    errorCode: null,
    finishedAt: null,
    retained: "kept",
    checkpoints: {},
    output: null,
    files: [],
    warningCode: null,
    charge: null,
    createdAt: NOW - (scope === "fresh" ? 499 : 500),
    claimableAt: NOW - 1,
    deadlineAt: scope === "overdue" ? NOW : NOW + 1,
    waitedMs: 3,
  })
}

/** Whether the request takes the place of the one of the job that has the scope. */
const replaces = (situation: Situation): boolean =>
  situation.replaces && situation.retry === "none" && situation.scope === "queued" && keepsScope(situation)

const keepsScope = ({ scope, until }: Situation): boolean => {
  if (scope === "none" || scope === "free") return false
  if (until === 500) return scope === "fresh"
  return scope === "queued" || (until === "unfinished" && (scope === "overdue" || scope === "processing"))
}

const retriedIn = ({ retry, upload }: Situation): ReturnType<JobFacts["retried"]> => {
  const uploadId = upload === "none" ? null : ("upl_a" as const)
  if (retry === "none" || retry === "unknown") return undefined
  return {
    status: retry === "done" ? "done" : "failed",
    errorCode: retry === "done" ? null : retry === "upload fault" ? "audio_too_long" : "provider_unavailable",
    retained: retry === "erased" ? "deleted" : "kept",
    uploadId: retry === "upload gone" ? (uploadId === null ? "upl_a" : null) : uploadId,
  }
}

const boardIn = ({ gate }: Situation): Board => ({
  switches: { ai: gate !== "switched off", audio: true, images: false },
  prices: gate === "no price" ? {} : { "svc-audio": price },
  liveKinds: [],
  lastServedAt: { speech_synthesis: gate === "unserved" ? NOW - 501 : NOW - 500 },
  pausedKinds: [],
  projectConcurrency: {},
})

const uploadIn = ({ upload }: Situation): Upload | undefined => {
  if (upload === "none" || upload === "unknown") return undefined
  const arrived = upload !== "in transfer" && upload !== "never came"
  return {
    id: "upl_a",
    projectId: "prj_a",
    keyId: "key_a",
    mode: "live",
    format: "mp3",
    declaredSeconds: 1,
    createdAt: 0,
    expiresAt: NOW,
    usableUntil: upload === "too old" ? NOW : NOW + 1,
    token: 1,
    claimedUntil: upload === "in transfer" ? NOW + 1 : null,
    transfers: 1,
    file: arrived && upload !== "erased" ? { blobKey: "b", bytes: 1, sha256: "00" } : null,
    jobId: upload === "used" ? "job_other" : upload === "the holder's" ? "job_holder" : null,
    erased: upload === "erased",
  }
}

/** The job may cost 0.02 at most. */
const spendingIn = ({ spending }: Situation): ReturnType<JobFacts["spending"]> => {
  if (spending === "no cap") return []
  const reserved = spending === "over" ? "0.981" : "0.98"
  return [{ owner: "prj_a", cap: { currency: "usd", day: "1", month: null }, reserved, day: "0", month: "7" }]
}

/** The facts of a situation, and the names of those that were read. */
const factsIn = (situation: Situation): { readonly facts: JobFacts; readonly asked: Set<string> } => {
  const asked = new Set<string>()
  const told =
    <Fact>(name: string, fact: () => Fact) =>
    (): Fact => {
      asked.add(name)
      return fact()
    }
  const { key, queue } = situation
  // The job may have another request by now.
  const existing =
    key === "free"
      ? undefined
      : { job: jobWith({ fingerprint: "third" }), fingerprint: key === "same request" ? "mine" : "other" }
  return {
    asked,
    facts: {
      now: NOW,
      scheduleVersion: told("tick", () => (situation.tick === "due" ? 3 : situation.tick === "taken" ? 4 : undefined)),
      existing: told("key", () => existing),
      scopeHolder: told("scope", () => holderIn(situation)),
      retried: told("retry", () => retriedIn(situation)),
      board: told("gate", () => boardIn(situation)),
      upload: told("upload", () => uploadIn(situation)),
      spending: told("spending", () => spendingIn(situation)),
      kept: told("storage", () => ({ uploads: 4, files: situation.storage === "full" ? 6 : 5 })),
      unfinished: told("queue", () => (queue === "room" ? 2 : queue === "full" ? 3 : 4)),
    },
  }
}

const missing = {
  "no price": ["price:svc-audio"],
  "no meter": ["price:svc-audio"],
  "switched off": ["switch:ai"],
  "forced off": ["switch:audio"],
  unserved: ["provider:speech_synthesis"],
} as const
const refusals = {
  unknown: "not_found",
  used: "already_used",
  "the holder's": "already_used",
  erased: "expired",
  "too old": "expired",
  "in transfer": "not_ready",
  "never came": "expired",
} as const

const isPriced = ({ gate }: Situation): boolean => gate !== "none" && gate !== "free"

/** The verdict of each check on a situation, in the order of the contract; `undefined` if it has no objection. */
const checks = (situation: Situation): ReadonlyArray<readonly [check: string, objection: object | undefined]> => {
  const { gate, key, queue, retry, spending, storage, tick, upload } = situation
  const refusal = { owner: "project", reason: spending === "over" ? "cap" : "unbounded" }
  return [
    ["tick", tick === "taken" || tick === "removed" ? { _tag: "TickTaken" } : undefined],
    ["key", key === "free" ? undefined : key === "other request" ? { _tag: "KeyReused" } : { _tag: "Replayed" }],
    ["scope", keepsScope(situation) && !replaces(situation) ? { _tag: "Duplicate" } : undefined],
    [
      "retry",
      retry === "none" || retry === "possible" || (retry === "upload fault" && upload === "none")
        ? undefined
        : { _tag: "NotRetryable" },
    ],
    ["gate", gate in missing ? { _tag: "GateClosed", missing: missing[gate as keyof typeof missing] } : undefined],
    [
      "upload",
      retry === "none" && upload in refusals && !(upload === "the holder's" && replaces(situation))
        ? { _tag: "UploadRefused", reason: refusals[upload as keyof typeof refusals] }
        : undefined,
    ],
    [
      "spending",
      isPriced(situation) && (spending === "over" || spending === "unbounded")
        ? { _tag: "SpendCapReached", refusal }
        : undefined,
    ],
    [
      "storage",
      storage === "full" && !replaces(situation)
        ? { _tag: "StorageFull", capBytes: 10, kept: { uploads: 4, files: 6 } }
        : undefined,
    ],
    ["queue", (queue === "full" || queue === "overfull") && !replaces(situation) ? { _tag: "QueueFull" } : undefined],
  ]
}

const forAll = (holds: (situation: Situation) => void): void =>
  fc.assert(fc.property(situations, holds), { numRuns: 2_000 })

/** What holds for the order in which a request is judged. Each throws where it does not hold. */
export const acceptanceProperties: Readonly<Record<string, (acceptance: Acceptance) => void>> = {
  "the first check that objects decides: key, scope, retry, gate, upload, spending, queue": ({ judgeJob }) =>
    forAll((situation) => {
      const first = checks(situation).find(([, objection]) => objection !== undefined)?.[1]
      const outcome = judgeJob(requestOf(situation), factsIn(situation).facts)
      expect(outcome).toMatchObject(first ?? { _tag: replaces(situation) ? "Replaced" : "Created" })
    }),

  "no fact is read behind the check that decides, or that the request does not depend on": ({ judgeJob }) =>
    forAll((situation) => {
      const { asked, facts } = factsIn(situation)
      judgeJob(requestOf(situation), facts)
      const all = checks(situation)
      const decided = all.findIndex(([, objection]) => objection !== undefined)
      const reached = all.slice(0, decided === -1 ? all.length : decided + 1).map(([check]) => check)
      const { gate, queue, retry, scope, storage, tick, upload } = situation
      const needed: Readonly<Record<string, boolean>> = {
        tick: tick !== "none",
        key: true,
        scope: scope !== "none",
        retry: retry !== "none",
        gate: gate !== "none",
        upload: upload !== "none" && retry === "none",
        spending: isPriced(situation),
        storage: storage !== "no cap" && !replaces(situation),
        queue: queue !== "no cap" && !replaces(situation),
      }
      expect([...asked].toSorted()).toEqual(reached.filter((check) => needed[check]).toSorted())
    }),

  "an accepted job is what was asked for, with the price in force and everything else at its beginning": ({
    judgeJob,
  }) =>
    forAll((situation) => {
      const request = requestOf(situation)
      const outcome = judgeJob(request, factsIn(situation).facts)
      if (outcome._tag !== "Created" && outcome._tag !== "Replaced") return
      const { limits } = request
      const isNew = outcome._tag === "Created"
      expect(outcome.job).toEqual({
        id: isNew ? request.id : "job_holder",
        projectId: request.projectId,
        keyId: request.keyId,
        mode: request.mode,
        kind: request.kind,
        kindVersion: request.kindVersion,
        request: request.request,
        priority: request.priority,
        // The job that is replaced keeps its prerequisites.
        metadata: isNew ? request.metadata : { ...request.metadata, ...prerequisites },
        uploadId: request.uploadId,
        idempotencyKey: request.idempotencyKey,
        fingerprint: request.fingerprint,
        ...limits,
        price: request.gate?.price == null ? null : price,
        status: "queued",
        token: 0,
        held: false,
        createdAt: isNew ? NOW : NOW - 500,
        claimableAt: NOW + 8,
        phaseStartedAt: NOW + 8,
        deadlineAt: NOW + 8 + limits.queueLimitMs,
        ranMs: 0,
        waitedMs: 0,
        attempts: 0,
        failures: 0,
        lostWorkers: 0,
        errorCode: null,
        finishedAt: null,
        retained: "kept",
        checkpoints: {},
        output: null,
        files: [],
        warningCode: null,
        charge: null,
      })
    }),

  "a request is accepted once: repeated, it is a replay; changed, it is refused": ({ judgeJob }) =>
    forAll((situation) => {
      const request = requestOf(situation)
      const { facts } = factsIn(situation)
      const outcome = judgeJob(request, facts)
      if (outcome._tag !== "Created") return
      const { job } = outcome
      const later: JobFacts = { ...facts, existing: () => ({ job, fingerprint: job.fingerprint }) }
      expect(judgeJob(request, later)).toEqual({ _tag: "Replayed", job })
      expect(judgeJob({ ...request, fingerprint: "other" }, later)).toEqual({ _tag: "KeyReused", job })
    }),
}
