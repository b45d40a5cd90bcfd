import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Job, JobMode, ProjectId, SpendOwner, StoreUnavailable, Upload } from "@kiln/core/domain"
import { hasRoom, type JobFacts, judgeJob, maximumCostOf } from "@kiln/core/rules"
import type { NewJob } from "@kiln/core/ports"
import { loadBoard, type StoredBoard } from "../board.ts"
import type { Database } from "../connection/Database.ts"
import { cappedOwners } from "../spending.ts"
import { keptOf, readKept } from "../uploads.ts"
import type { Read } from "./createJobs.ts"
import {
  asStored,
  type CapCheck,
  type Compared,
  type Cost,
  type Counted,
  keyName,
  newRow,
  type NewRow,
} from "./insertJobs.ts"
import { type Lanes, RememberedLanes } from "./lanes.ts"

/** Maximum number of remembered projects; when it is exceeded, all are forgotten. */
const mostRemembered = 10_000
/** After this time, a project is counted again, because a database that was restored gives numbers a second time. */
const rememberedForNanos = 300_000_000_000n

/** What this process has counted of projects that have a queue cap. Wrong only in one direction: there may be fewer jobs. */
class CountedProjects {
  readonly #counts = new Map<string, Counted & { readonly at: bigint }>()

  of(projectId: string, now: bigint): Counted | undefined {
    const known = this.#counts.get(projectId)
    return known !== undefined && now - known.at < rememberedForNanos ? known : undefined
  }

  remember(counts: ReadonlyArray<Counted>, now: bigint): void {
    if (this.#counts.size + counts.length > mostRemembered) this.#counts.clear()
    for (const counted of counts) this.#counts.set(counted.project_id, { ...counted, at: now })
  }
}

/** The time for which a reading is reused for a project far from its cap, and the distance that counts as far. */
const readingMs = 1_000
const ampleBytes = 1_024 ** 3

/**
 * Says which jobs need no look at what their projects keep. Jobs add bytes when they finish, not when they are accepted, so a reading
 * outside of the transaction is as good as one inside. A reading with ample room is used for a second.
 */
class StorageRoom {
  readonly #db: Pick<Database, "read">
  readonly #ample: Readonly<Record<JobMode, Map<ProjectId, number>>> = { live: new Map(), sandbox: new Map() }

  constructor(db: Pick<Database, "read">) {
    this.#db = db
  }

  /** Returns whether the projects of these jobs are below their caps. */
  has(items: ReadonlyArray<NewJob>): Effect.Effect<boolean, StoreUnavailable> {
    const now = performance.now()
    const unsure = items.filter(
      (item) => (item.storageCap ?? 0) > 0 && (this.#ample[item.mode].get(item.projectId) ?? 0) < now,
    )
    if (unsure.length === 0) return Effect.succeed(true)
    return Effect.map(
      this.#db.read("JobStore.createJobs", (session) => readKept(session, unsure)),
      (read) => {
        for (const ample of Object.values(this.#ample)) if (ample.size > 10_000) ample.clear()
        return unsure.every((item) => {
          const { mode, projectId, storageCap = 0 } = item
          if (hasRoom(keptOf(read, item), storageCap - ampleBytes)) this.#ample[mode].set(projectId, now + readingMs)
          return hasRoom(keptOf(read, item), storageCap)
        })
      },
    )
  }
}

/** Jobs that one statement may add. */
export interface Addable {
  readonly items: ReadonlyArray<NewJob>
  readonly rows: ReadonlyArray<NewRow>
  readonly lanes: Lanes
  readonly compared: Compared
  /** Returns the job of an item that was accepted at this store time. */
  readonly jobAt: (item: NewJob, now: number) => Job
}

/** The caps of these items' projects: the lowest that one of them names, and all jobs that are added. */
const capsOf = (
  items: ReadonlyArray<NewJob>,
  countedOf: (projectId: string) => Counted | undefined,
): ReadonlyArray<CapCheck> => {
  const caps = new Map<string, Omit<CapCheck, "cap" | "adding"> & { cap: number; adding: number }>()
  for (const { projectId, queueCap } of items)
    if (queueCap > 0) {
      const known = caps.get(projectId)
      if (known === undefined) {
        const { counted = null, counted_to = null } = countedOf(projectId) ?? {}
        caps.set(projectId, { project_id: projectId, cap: queueCap, adding: 0, counted, counted_to })
      } else known.cap = Math.min(known.cap, queueCap)
    }
  if (caps.size > 0)
    for (const { projectId } of items) {
      const cap = caps.get(projectId)
      if (cap !== undefined) cap.adding += 1
    }
  return [...caps.values()]
}

/** Maximum number of remembered owners with a spend cap; when it is exceeded, all are forgotten. */
const mostOwners = 10_000

/**
 * The facts that a process remembers, so that it can accept jobs without reading. It refuses nothing by them, and the statement that
 * adds the jobs compares them: a stale fact costs a round trip and never leads to a wrong decision.
 */
export class RememberedFacts {
  readonly lanes = new RememberedLanes()
  readonly #db: Pick<Database, "read">
  readonly #room: StorageRoom
  readonly #capped = new Set<SpendOwner>()
  readonly #counted = new CountedProjects()
  #board: StoredBoard | undefined

  constructor(db: Pick<Database, "read">) {
    this.#db = db
    this.#room = new StorageRoom(db)
  }

  /**
   * Returns what one statement may add; `undefined` if the facts must be read. `own`: in a transaction of this process's. In a caller's, money is
   * reserved on another connection.
   */
  addable(items: ReadonlyArray<NewJob>, own = true): Effect.Effect<Addable | undefined, StoreUnavailable> {
    return Clock.clockWith((clock) => {
      const jobs = own || !this.#isCapped(items) ? this.#assumed(items, clock) : undefined
      if (jobs === undefined) return Effect.undefined
      return Effect.map(this.#room.has(items), (fits) => (fits ? jobs : undefined))
    })
  }

  #assumed(items: ReadonlyArray<NewJob>, clock: Clock.Clock): Addable | undefined {
    const lanes = this.lanes.ofAll(items)
    const board = this.#board
    const assumed = lanes === undefined ? undefined : assumedOf(items, board, (owner) => this.#capped.has(owner))
    if (lanes === undefined || assumed === undefined) return undefined
    return {
      items,
      rows: assumed.rows,
      lanes,
      compared: {
        caps: capsOf(items, (projectId) => this.#counted.of(projectId, clock.monotonicTimeNanosUnsafe())),
        costs: assumed.costs,
        board: assumed.board,
        servedUntil: assumed.servedUntil,
      },
      jobAt: (item, now) => {
        const job = assumedJob(item, board, now)
        if (job === undefined) throw new TypeError("a job was added that the remembered facts refuse")
        return asStored(job)
      },
    }
  }

  /** Whether spending has to be counted for one of these items. */
  #isCapped(items: ReadonlyArray<NewJob>): boolean {
    return this.#capped.size > 0 && cappedOwners(items).some((owner) => this.#capped.has(owner))
  }

  /** Whether the board has to be read before these items can be judged from memory. */
  lacksBoard(items: ReadonlyArray<NewJob>): boolean {
    return this.#board === undefined && items.some(({ gate }) => gate !== null)
  }

  readonly reloadBoard: Effect.Effect<void, StoreUnavailable> = Effect.suspend(() =>
    Effect.map(this.#db.read("JobStore.createJobs", loadBoard), (board) => this.rememberBoard(board)),
  )

  /** Remembers a board without its live workers, because they can withdraw their entries. The times at which kinds were last served stay. */
  rememberBoard(board: StoredBoard): void {
    this.#board = { ...board, liveKinds: [] }
  }

  /** Remembers projects whose jobs were counted, also where the answer comes after others: what was counted stays true. */
  rememberCounts(counts: ReadonlyArray<Counted>): Effect.Effect<void> {
    return Clock.clockWith((clock) =>
      Effect.sync(() => this.#counted.remember(counts, clock.monotonicTimeNanosUnsafe())),
    )
  }

  /** Remembers the facts that were read to judge these items. */
  remember(items: ReadonlyArray<NewJob>, { board, lanes, spending }: Read): void {
    this.lanes.remember(lanes)
    if (board !== undefined) this.rememberBoard(board)
    if (this.#capped.size > mostOwners) this.#capped.clear()
    for (const owner of cappedOwners(items)) this.#capped.delete(owner)
    for (const { owner } of spending.caps) this.#capped.add(owner)
  }
}

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
const assumedJob = (item: NewJob, board: StoredBoard | undefined, now: number): Job | undefined => {
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
const assumedOf = (
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
