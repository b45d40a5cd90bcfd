import { type Job, type JobFacts, judgeJob, maximumCostOf, type SpendOwner, type Upload } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { StoredBoard } from "../board.ts"
import { keyName } from "./createJobs.ts"
import type { Cost } from "./insertJobs.ts"
import { newRow, type NewRow } from "./newRows.ts"

const never = (): never => {
  throw new TypeError("a job that was decided from memory asked for a fact that is not remembered")
}

const nothing: ReturnType<JobFacts["kept"]> = { uploads: 0, files: 0 }

/** The facts that are the same for all jobs: keys and scopes are free, and all caps far. */
const assumed = {
  scheduleVersion: never,
  existing: () => undefined,
  scopeHolder: () => undefined,
  retried: never,
  spending: () => [],
  kept: () => nothing,
  unfinished: () => 0,
} satisfies Partial<JobFacts>

/** An upload that the job may use. */
const usableUpload = ({ keyId, mode, projectId, uploadId }: NewJob): Upload | undefined =>
  uploadId === null
    ? undefined
    : {
        id: uploadId,
        projectId,
        keyId,
        mode,
        format: "wav",
        declaredSeconds: 0,
        createdAt: 0,
        expiresAt: Number.MAX_SAFE_INTEGER,
        usableUntil: Number.MAX_SAFE_INTEGER,
        token: 1,
        claimedUntil: null,
        transfers: 1,
        file: { blobKey: "", bytes: 0, sha256: "" },
        jobId: null,
        erased: false,
      }

/** Returns the job that is accepted at this store time by the remembered board, if everything else is free; otherwise `undefined`. */
export const assumedJob = (item: NewJob, board: StoredBoard | undefined, now: number): Job | undefined => {
  if (item.gate !== null && board === undefined) return undefined
  const outcome = judgeJob(item, {
    ...assumed,
    now,
    board: () => board ?? never(),
    upload: () => usableUpload(item),
  })
  return outcome._tag === "Created" ? outcome.job : undefined
}

/** Whether no job depends on another one of the batch, except by its key alone, which the store compares. */
const areIndependent = (items: ReadonlyArray<NewJob>): boolean => {
  if (items.length === 1 || items.every(({ unique, uploadId }) => unique === undefined && uploadId === null))
    return true
  const names = items.flatMap((item) => [keyName(item), item.unique?.scope ?? [], item.uploadId ?? []].flat())
  return new Set(names).size === names.length
}

/** Whether a job is always judged under locks: a retry depends on the failed job, and a tick on its schedule. */
const needsLocks = ({ retryOf, tick }: NewJob): boolean => tick !== undefined || retryOf !== null

const servedUntilOf = (items: ReadonlyArray<NewJob>, { lastServedAt }: StoredBoard): number | null => {
  const times = items.flatMap(({ gate }) =>
    gate === null || gate.liveWorker === null
      ? []
      : [(lastServedAt[gate.liveWorker.kind] ?? 0) + Math.floor(gate.liveWorker.withinMs)],
  )
  return times.length === 0 ? null : Math.min(...times, Number.MAX_SAFE_INTEGER)
}

/** The maximum cost of a job, for those of its owners whose spending is counted. */
const costsOf = (item: NewJob, { id, price }: Job, isCapped: (owner: SpendOwner) => boolean): ReadonlyArray<Cost> =>
  price === null
    ? []
    : [item.keyId, item.projectId]
        .filter(isCapped)
        .map((owner) => ({ owner, id, currency: price.currency, amount: maximumCostOf(item, price) ?? null }))

/** Jobs that are accepted if the assumptions hold. */
export interface Assumed {
  readonly rows: ReadonlyArray<NewRow>
  /** The version of the board; `null` if no job has a gate. */
  readonly board: string | null
  readonly servedUntil: number | null
  readonly costs: ReadonlyArray<Cost>
}

/**
 * Judges jobs by a remembered board, as if keys, scopes and uploads were free and all caps far. Returns `undefined` unless all are
 * accepted. The board must have no `liveKinds`, because workers can withdraw their entries at any time. `isCapped`: whether the spending
 * of an owner has to be counted.
 */
export const assumedOf = (
  items: ReadonlyArray<NewJob>,
  board: StoredBoard | undefined,
  isCapped: (owner: SpendOwner) => boolean,
): Assumed | undefined => {
  if (items.length === 0 || items.some(needsLocks) || !areIndependent(items)) return undefined
  const rows: Array<NewRow> = []
  const costs: Array<Cost> = []
  for (const item of items) {
    const job = assumedJob(item, board, board?.readAt ?? 0)
    if (job === undefined) return undefined
    const price = item.gate?.price ?? null
    rows.push(newRow(item, job, price === null ? null : (board?.stored[price]?.id ?? null), undefined))
    if (job.price !== null) costs.push(...costsOf(item, job, isCapped))
  }
  if (board === undefined || items.every(({ gate }) => gate === null))
    return { rows, costs, board: null, servedUntil: null }
  return { rows, costs, board: board.version, servedUntil: servedUntilOf(items, board) }
}
