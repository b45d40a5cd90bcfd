import type { JobMode } from "./Access.ts"
import type { FailedAttempt } from "./AttemptRecord.ts"
import { maxParkMs, type WaitRun } from "./Parking.ts"
import type { PauseReason } from "./Circuit.ts"
import type { Board } from "./Gate.ts"
import type { Job } from "./Job.ts"
import type { ServedKind, WorkerScope } from "./WorkerScope.ts"

/** Everything that an unfinished job can wait for. */
export const waitingReasons = [
  "kind_paused",
  "switch_off",
  "price_missing",
  "spend_cap",
  "no_worker",
  "provider_paused",
  "kind_limit",
  "project_limit",
  "project_share",
  "slots",
  "rate",
  "start_delayed",
  "retry",
  "children",
  "after",
  "signal",
  "sleep",
  "isolation",
  "store_unavailable",
  "blobs_unavailable",
  "worker_lost",
  "line",
] as const

export type WaitingReasonName = (typeof waitingReasons)[number]

/** One thing that an unfinished job waits for. */
export interface WaitingFor {
  readonly reason: WaitingReasonName
  /**
   * The kind, switch, price, provider or project that holds the job back, the step of the children, or the name of the signal or the
   * sleep; `null` for other reasons.
   */
  readonly subject: string | null
  /**
   * `provider_paused`: `quota`, `configuration`, `failing` or `postponed`. `retry`: the error code of the last attempt. `no_worker`:
   * `none` runs, or none runs the `kind`, its `version` or its `mode`. `switch_off`: `settings` if the settings of all workers force it
   * off. `switch_off`, `price_missing`, `spend_cap` and `no_worker` for children that the job cannot create: `children`. `rate`: the rate, as
   * `10/1000ms`.
   */
  readonly cause: string | null
  /** When it goes on by itself, or is tried again, in unix milliseconds; `null` if that is unknown. */
  readonly until: number | null
  /** Jobs ahead of it (`line`, `rate`), jobs that run (limits), unfinished children or prerequisites (`after`). */
  readonly count: number | null
  /** The limit that is reached; for `after`, the number of all prerequisites. */
  readonly limit: number | null
}

/** A worker's published state, as far as it decides which jobs wait. */
export interface WorkerFacts {
  readonly liveKinds: ReadonlyArray<string>
  readonly providers: ReadonlyArray<{
    readonly provider: string
    readonly status: "ready" | "paused"
    readonly reason: PauseReason | null
    readonly nextTryAt?: number
  }>
  readonly scope?: WorkerScope
}

/** The facts of a kind that may hold back all its jobs. */
export interface KindFacts {
  readonly board: Pick<Board, "pausedKinds" | "switches" | "projectConcurrency">
  readonly workers: ReadonlyArray<WorkerFacts>
  /** The switches that live jobs of the kind need, as far as this process knows. Those that workers publish are added. */
  readonly switches: ReadonlyArray<string>
}

/** The position of an unfinished job, and the jobs that it competes with. */
export interface QueuePlace {
  /** Store time, unix milliseconds. */
  readonly now: number
  /** Jobs that a worker could claim now and that are served before it, of its project, kind, version and mode; at most `maxAhead`. */
  readonly ahead: number
  /** Jobs of its mode under a lease: of its kind, of its project, and all. */
  readonly running: { readonly kind: number; readonly project: number; readonly all: number }
}

/** Maximum number of jobs that `QueuePlace.ahead` counts. */
export const maxAhead = 1_000

/** The facts about one job, all that `waitingFor` needs. */
export interface WaitingFacts extends KindFacts {
  readonly job: Pick<
    Job,
    "kind" | "kindVersion" | "mode" | "projectId" | "status" | "held" | "claimableAt" | "attempts"
  >
  readonly place: QueuePlace
  /** Its newest failed attempt. */
  readonly failed?: Pick<FailedAttempt, "number" | "errorCode"> | undefined
  /** Its newest attempts that ended to wait. */
  readonly waited?: WaitRun | undefined
  /** Number of its unfinished children, or prerequisites if it waits for those. */
  readonly unfinishedJobs: number
}

const one = (reason: WaitingReasonName, about: Partial<Omit<WaitingFor, "reason">> = {}): WaitingFor => ({
  reason,
  subject: null,
  cause: null,
  until: null,
  count: null,
  limit: null,
  ...about,
})

interface RunnableJob {
  readonly kind: string
  readonly mode: JobMode
  /** Any version if omitted. */
  readonly kindVersion?: number
}

type Serving = { readonly worker: WorkerFacts; readonly scope: WorkerScope; readonly served: ServedKind }

const servingKind = (workers: ReadonlyArray<WorkerFacts>, kind: string): ReadonlyArray<Serving> =>
  workers.flatMap((worker) => {
    const served = worker.scope?.kinds.find((each) => each.kind === kind)
    return worker.scope === undefined || served === undefined ? [] : [{ worker, scope: worker.scope, served }]
  })

const runsVersion = ({ served }: Serving, { kindVersion }: RunnableJob): boolean =>
  kindVersion === undefined || (served.fromVersion <= kindVersion && kindVersion <= served.toVersion)

const servingJob = (workers: ReadonlyArray<WorkerFacts>, asked: RunnableJob): ReadonlyArray<Serving> =>
  servingKind(workers, asked.kind).filter((each) => runsVersion(each, asked) && each.served.modes.includes(asked.mode))

/** Why no worker takes the job; `undefined` if one does, or if a worker of an earlier version may. */
const lackingWorker = (workers: ReadonlyArray<WorkerFacts>, asked: RunnableJob): string | undefined => {
  if (servingJob(workers, asked).length > 0) return undefined
  const mayRun = ({ liveKinds, scope }: WorkerFacts) =>
    scope === undefined && (asked.mode === "sandbox" || liveKinds.includes(asked.kind))
  if (workers.some(mayRun)) return undefined
  if (workers.length === 0) return "none"
  const serving = servingKind(workers, asked.kind)
  if (serving.length === 0) return "kind"
  return serving.some((each) => runsVersion(each, asked)) ? "mode" : "version"
}

const switchesOff = (
  { mode }: RunnableJob,
  serving: ReadonlyArray<Serving>,
  { board, switches }: KindFacts,
): ReadonlyArray<WaitingFor> => {
  if (mode === "sandbox") return []
  const needed = [...new Set([...switches, ...serving.flatMap(({ served }) => served.switches)])]
  return needed.flatMap((name) => {
    if (!(Object.hasOwn(board.switches, name) && board.switches[name] === true))
      return [one("switch_off", { subject: name })]
    const isForced = serving.length > 0 && serving.every(({ scope }) => scope.forcedOff.includes(name))
    return isForced ? [one("switch_off", { subject: name, cause: "settings" })] : []
  })
}

/** The providers that are paused in every worker that could run the job. */
const providersPaused = ({ mode }: RunnableJob, serving: ReadonlyArray<Serving>): ReadonlyArray<WaitingFor> => {
  if (mode === "sandbox") return []
  const names = [...new Set(serving.flatMap(({ served }) => served.providers))]
  return names.flatMap((name) => {
    const using = serving.filter(({ served }) => served.providers.includes(name))
    const paused = using.flatMap(({ worker }) =>
      worker.providers.filter(({ provider, status }) => provider === name && status === "paused"),
    )
    const [first] = paused
    if (first === undefined || paused.length < serving.length) return []
    const tries = paused.flatMap(({ nextTryAt }) => (nextTryAt === undefined ? [] : [nextTryAt]))
    return [
      one("provider_paused", {
        subject: name,
        cause: paused.find(({ reason }) => reason !== "failing")?.reason ?? first.reason,
        until: tries.length === 0 ? null : Math.min(...tries),
      }),
    ]
  })
}

/**
 * Returns what holds back all jobs of a kind and mode, whether or not there are any: it is paused, a switch is off, no worker runs it,
 * or its providers are paused. In this order; empty if nothing does.
 */
export const heldBack = (asked: RunnableJob, facts: KindFacts): ReadonlyArray<WaitingFor> => {
  const serving = servingJob(facts.workers, asked)
  const lacking = lackingWorker(facts.workers, asked)
  return [
    ...(facts.board.pausedKinds.includes(asked.kind) ? [one("kind_paused", { subject: asked.kind })] : []),
    ...switchesOff(asked, serving, facts),
    ...(lacking === undefined ? [] : [one("no_worker", { subject: asked.kind, cause: lacking })]),
    ...providersPaused(asked, serving),
  ]
}

const missedReasons: Readonly<Record<string, WaitingReasonName | undefined>> = {
  switch: "switch_off",
  price: "price_missing",
  spend_cap: "spend_cap",
}

/** The prerequisites that an attempt missed for its children, such as `switch:ai, price:svc-audio`. */
const missedByChildren = (missing: string): ReadonlyArray<WaitingFor> =>
  missing.split(", ").map((each) => {
    const [what = "", subject = ""] = each.split(":")
    return one(missedReasons[what] ?? "no_worker", { subject, cause: "children" })
  })

/** Other jobs that the job waits for. */
const forJobs = (reason: "children" | "after", subject: string | null, count: number): WaitingFor =>
  reason === "children" ? one(reason, { subject, count }) : one(reason, { count, limit: Number(subject) })

/** A job that waits for other jobs alone is parked for as long as a job can be. */
const soon = (until: number, now: number): number | null => (until - now > maxParkMs / 2 ? null : until)

/** Why the job may not be claimed yet. */
const delayOf = (
  { failed, job, place: { now }, unfinishedJobs, waited }: WaitingFacts,
  until: number,
): ReadonlyArray<WaitingFor> => {
  if (job.attempts === 0 && waited === undefined) return [one("start_delayed", { until })]
  // The attempt of a parked job does not count, so its wait has the number of the next one.
  if (waited === undefined || waited.lastAttempt < job.attempts)
    return [one("retry", { cause: failed?.number === job.attempts ? failed.errorCode : null, until })]
  switch (waited.reason) {
    case "children":
    case "after":
      return [{ ...forJobs(waited.reason, waited.subject, unfinishedJobs), until: soon(until, now) }]
    case "signal":
    case "sleep":
      return [one(waited.reason, { subject: waited.subject, until })]
    case "provider":
      return [one("provider_paused", { subject: waited.subject, cause: waited.cause, until })]
    case "gate":
      return missedByChildren(waited.subject ?? "").map((missed) => ({ ...missed, until }))
    case "store":
      return [one("store_unavailable", { until })]
    case "blobs":
      return [one("blobs_unavailable", { until })]
    case "isolation":
      return [one("isolation", { until })]
  }
}

/** The limit that holds among workers of different settings: the highest, because one worker is enough. 0 means no limit. */
const highest = (limits: ReadonlyArray<number>): number =>
  limits.length === 0 || limits.includes(0) ? 0 : Math.max(...limits)

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((all, each) => all + each, 0)

/** The limits at which a job that could be claimed now stands. */
const limitsReached = ({ board, job, place, workers }: WaitingFacts): ReadonlyArray<WaitingFor> => {
  const serving = servingJob(workers, job)
  const { running } = place
  const reached = (reason: WaitingReasonName, subject: string | null, count: number, limit: number) =>
    limit > 0 && count >= limit ? [one(reason, { subject, count, limit })] : []
  const own = Object.hasOwn(board.projectConcurrency, job.projectId)
    ? board.projectConcurrency[job.projectId]
    : undefined
  const everyScope = workers.flatMap(({ scope }) => scope ?? [])
  const isComplete = everyScope.length === workers.length
  const shares = everyScope.map(({ share }) => share)
  return [
    ...reached("kind_limit", job.kind, running.kind, highest(serving.map(({ served }) => served.limit ?? 0))),
    ...reached(
      "project_limit",
      job.projectId,
      running.project,
      own ?? highest(serving.map(({ scope }) => scope.perProject)),
    ),
    ...reached("slots", null, running.all, isComplete ? sum(everyScope.map(({ slots }) => slots)) : 0),
    ...reached("project_share", job.projectId, running.project, isComplete && !shares.includes(0) ? sum(shares) : 0),
  ]
}

/** The line that the job stands in; with the rate, if one limits how fast it moves. */
const lineOf = ({ job, place: { ahead }, workers }: WaitingFacts): WaitingFor => {
  const serving = servingJob(workers, job)
  const [rate] = serving.flatMap(({ served }) =>
    served.rates.filter(({ provider }) => provider === null || job.mode === "live"),
  )
  return rate === undefined
    ? one("line", { count: ahead })
    : one("rate", { subject: rate.provider ?? job.kind, cause: `${rate.limit}/${rate.perMs}ms`, count: ahead })
}

/**
 * Returns what an unfinished job waits for: first what somebody has to change, then delays and limits that pass by themselves, or its
 * place in the line. Empty if the job is running or finished, and only then.
 */
export const waitingFor = (facts: WaitingFacts): ReadonlyArray<WaitingFor> => {
  const { job, unfinishedJobs, waited } = facts
  const { claimableAt, held } = job
  const { now } = facts.place
  if (claimableAt === null || (held && claimableAt > now)) return []
  const blockers = heldBack(job, facts)
  if (claimableAt > now) {
    const delay = delayOf(facts, claimableAt).filter(
      ({ reason, subject }) => !blockers.some((blocker) => blocker.reason === reason && blocker.subject === subject),
    )
    return job.attempts === 0 && waited === undefined ? [...delay, ...blockers] : [...blockers, ...delay]
  }
  const parked =
    waited !== undefined &&
    waited.lastAttempt >= job.attempts &&
    (waited.reason === "children" || waited.reason === "after") &&
    unfinishedJobs > 0
      ? [forJobs(waited.reason, waited.subject, unfinishedJobs)]
      : []
  const lost = held ? [one("worker_lost")] : []
  const reasons = [...blockers, ...parked, ...lost, ...(blockers.length === 0 ? limitsReached(facts) : [])]
  return reasons.length > 0 ? reasons : [lineOf(facts)]
}
