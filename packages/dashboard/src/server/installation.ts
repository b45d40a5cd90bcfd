import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { listSchedules as readSchedules, measureQueues, Operator, type PlacedSchedule } from "@kiln/core/effect"
import {
  type ApiKeyRecord,
  AuditLog,
  DeliveryStore,
  JobDirectory,
  KeyDirectory,
  type Project,
  type PublishedWorker,
  Switchboard,
} from "@kiln/core/ports"
import type { Spending, WaitingFor } from "@kiln/core/domain"
import type { InputOf, ResultOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import { formatTime } from "./format.ts"
import { limitOf } from "./jobFields.ts"
import { readProjects, waitingFields } from "./names.ts"

/** Unfinished jobs that are counted at most, as for metrics. */
export const mostMeasured = 100_000

type QueueRow = Effect.Success<ReturnType<typeof measureQueues>>[number]

export const queueFields = (
  { delayed, heldBack, kind, mode, oldestReadyMs, ready, retrying, running }: QueueRow,
  pausedKinds: ReadonlyArray<string>,
) => ({
  type: kind,
  mode,
  paused: pausedKinds.includes(kind),
  ready,
  running,
  retrying,
  delayed,
  oldest_ready_seconds: oldestReadyMs / 1_000,
  held_back: heldBack.map((why: WaitingFor) => waitingFields(why)),
})

export const spendingFields = (
  { cap, day, month, owner, reserved }: Spending,
  names: ReadonlyMap<string, string>,
): ResultOf<"overview">["spending"][number] => ({
  owner,
  name: names.get(owner) ?? null,
  currency: cap.currency,
  day_cap: cap.day,
  day_spent: day,
  month_cap: cap.month,
  month_spent: month,
  reserved,
})

/** Combines the published state of all workers, by provider. */
export const providerFields = (workers: ReadonlyArray<PublishedWorker>): ResultOf<"overview">["providers"] => {
  const standings = workers.flatMap(({ providers }) => providers)
  return [...Map.groupBy(standings, ({ provider }) => provider)]
    .map(([provider, all]) => {
      const paused = all.filter(({ status }) => status === "paused")
      const [worst] = paused.toSorted(
        (one, other) => Number(one.reason === "failing") - Number(other.reason === "failing"),
      )
      const tries = paused.flatMap(({ nextTryAt }) => nextTryAt ?? [])
      return {
        provider,
        status: paused.length === all.length ? ("paused" as const) : ("ready" as const),
        reason: worst?.reason ?? null,
        workers: all.length,
        paused_workers: paused.length,
        paused_since: paused.length === 0 ? null : formatTime(Math.min(...paused.map(({ since }) => since))),
        next_try_at: tries.length === 0 ? null : formatTime(Math.min(...tries)),
      }
    })
    .toSorted((one, other) => (one.provider < other.provider ? -1 : 1))
}

export const workerFields = ({ liveKinds, providers, scope, workerId }: PublishedWorker) => ({
  worker_id: workerId,
  name: scope?.state?.name ?? null,
  slots: scope?.slots ?? null,
  live_types: liveKinds,
  types: scope?.kinds.map(({ kind }) => kind) ?? [],
  paused_providers: providers.filter(({ status }) => status === "paused").map(({ provider }) => provider),
  forced_off: scope?.forcedOff ?? [],
  version: scope?.state?.version ?? null,
  draining: scope?.state?.draining ?? false,
  free: scope?.state?.free ?? null,
  last_claim_at: formatTime(scope?.state?.lastClaimAt ?? null),
  loop_lag_ms: scope?.state?.loopLagMs ?? null,
})

export const deliveryFields = Effect.map(
  Effect.flatMap(DeliveryStore, (store) => store.countDeliveries),
  (counts) =>
    counts.map(({ count, kind, oldestDueMs, repeated }) => ({
      type: kind,
      count,
      repeated,
      oldest_due_seconds: oldestDueMs / 1_000,
    })),
)

/** Reads the queue. Its readers share one measurement. */
export type ReadQueues<E, R> = Effect.Effect<ReadonlyArray<QueueRow>, E, R>

export const readQueues = measureQueues(undefined, mostMeasured)

export const listKinds = Effect.fnUntraced(function* <E, R>(measured: ReadQueues<E, R>) {
  const board = yield* (yield* Operator).board
  const stored = yield* (yield* JobDirectory).listKinds
  const queues = yield* measured
  const workers = yield* (yield* Switchboard).listWorkers
  const served = workers.flatMap(({ scope }) => scope?.kinds ?? [])
  const names = [...new Set([...stored, ...served.map(({ kind }) => kind), ...board.pausedKinds])].toSorted()
  return names.map((name) => {
    const serving = served.filter(({ kind }) => kind === name)
    const limits = serving.flatMap(({ limit }) => limit ?? [])
    return {
      type: name,
      paused: board.pausedKinds.includes(name),
      queues: queues.filter(({ kind }) => kind === name).map((row) => queueFields(row, board.pausedKinds)),
      workers: serving.length,
      limit: limits.length === serving.length && limits.length > 0 ? Math.max(...limits) : null,
      switches: [...new Set(serving.flatMap(({ switches }) => switches))],
      providers: [...new Set(serving.flatMap(({ providers }) => providers))],
    }
  })
})

const projectNames = (projects: ReadonlyArray<Project>): ReadonlyMap<string, string> =>
  new Map(projects.map(({ id, name }) => [id, name]))

export const listProjects = Effect.gen(function* () {
  const projects = yield* readProjects
  const { projectConcurrency } = yield* (yield* Operator).board
  const spending = new Map((yield* (yield* Switchboard).listSpending).map((each) => [each.owner as string, each]))
  const names = projectNames(projects)
  return projects.map(({ createdAt, disabledAt, id, name }) => {
    const spent = spending.get(id)
    return {
      project_id: id,
      name,
      created_at: formatTime(createdAt),
      disabled_at: formatTime(disabledAt),
      concurrency: projectConcurrency[id] ?? null,
      spending: spent === undefined ? null : spendingFields(spent, names),
    }
  })
})

const keyStatus = ({ expiresAt, revokedAt }: ApiKeyRecord, now: number): "active" | "revoked" | "expired" => {
  if (revokedAt !== null) return "revoked"
  return expiresAt !== null && expiresAt <= now ? "expired" : "active"
}

export const listKeys = Effect.gen(function* () {
  const now = yield* Clock.currentTimeMillis
  const names = projectNames(yield* readProjects)
  return (yield* (yield* KeyDirectory).listKeys).map((key) => ({
    key_id: key.id,
    project_id: key.projectId,
    project_name: names.get(key.projectId) ?? null,
    name: key.name,
    mode: key.mode,
    scopes: key.scopes,
    status: keyStatus(key, now),
    created_at: formatTime(key.createdAt),
    expires_at: formatTime(key.expiresAt),
    last_used_at: formatTime(key.lastUsedAt),
  }))
})

const timingText = ({ timing }: PlacedSchedule): string =>
  "cron" in timing ? `${timing.cron} ${timing.timeZone}` : `every ${timing.everyMs / 1_000} s`

export const listSchedules = Effect.map(readSchedules, ({ schedules }) =>
  schedules.map((schedule) => ({
    name: schedule.name,
    type: schedule.kind,
    mode: schedule.owner.mode,
    project_id: schedule.owner.projectId,
    timing: timingText(schedule),
    paused: schedule.paused,
    next_at: formatTime(schedule.nextAt),
    last_at: formatTime(schedule.last?.tick ?? null),
    last_job_id: schedule.last?.jobId ?? null,
    refusal: schedule.refusal,
    overlap: schedule.overlap ?? "allow",
    ends_at: formatTime(schedule.endsAt ?? null),
    waits: schedule.waits ?? false,
    skipped: schedule.skipped?.count ?? 0,
    last_skipped_at: formatTime(schedule.skipped?.tick ?? null),
  })),
)

const mostDeliveries = 200

export const listDeliveries = Effect.gen(function* () {
  const deliveries = yield* (yield* DeliveryStore).listDeliveries(mostDeliveries)
  return {
    pending: yield* deliveryFields,
    deliveries: deliveries.map(({ attempts, dueAt, jobId, kind }) => ({
      job_id: jobId,
      type: kind,
      calls: attempts,
      due_at: formatTime(dueAt),
    })),
  }
})

export const listSwitches = Effect.gen(function* () {
  const { switches } = yield* (yield* Switchboard).readBoard
  const shown = (yield* (yield* Operator).board).switches
  const workers = yield* (yield* Switchboard).listWorkers
  return Object.keys({ ...shown, ...switches }).map((name) => ({
    name,
    on: switches[name] === true,
    forced_off: workers.some(({ scope }) => scope?.forcedOff.includes(name) === true),
  }))
})

/** Counts the unfinished live jobs whose kind needs a switch, as far as workers tell. */
export const switchImpact = Effect.fnUntraced(function* <E, R>(
  { id }: InputOf<"switchImpact">,
  measured: ReadQueues<E, R>,
) {
  const workers = yield* (yield* Switchboard).listWorkers
  const needing = new Set(
    workers
      .flatMap(({ scope }) => scope?.kinds.filter(({ switches }) => switches.includes(id)) ?? [])
      .map(({ kind }) => kind),
  )
  const depths = yield* measured
  const live = depths.filter(({ kind, mode }) => mode === "live" && needing.has(kind))
  const all = depths.reduce(
    (sum, { delayed, ready, retrying, running }) => sum + delayed + ready + retrying + running,
    0,
  )
  return {
    waiting: live.reduce((sum, { delayed, ready, retrying }) => sum + delayed + ready + retrying, 0),
    is_partial: all >= mostMeasured,
  }
})

export const listPrices = Effect.map(
  Effect.flatMap(Switchboard, (switchboard) => switchboard.listPrices),
  (prices) =>
    prices.map(({ active, createdAt, currency, name, unitAmounts, version }) => ({
      name,
      version,
      active,
      currency,
      unit_amounts: Object.fromEntries(
        Object.entries(unitAmounts).flatMap(([meter, amount]) => (amount === undefined ? [] : [[meter, amount]])),
      ),
      created_at: formatTime(createdAt),
    })),
)

export const listAudit = Effect.fnUntraced(function* ({ query }: InputOf<"listAudit">) {
  const limit = yield* limitOf(query.limit)
  const log = yield* Effect.serviceOption(AuditLog)
  if (Option.isNone(log)) return { changes: [], next: null }
  if (query.after !== undefined && !Number.isSafeInteger(query.after))
    return yield* Effect.fail(refuse("invalid_request", "after must be the next of an earlier response"))
  const page = { from: 0, to: Number.MAX_SAFE_INTEGER, after: query.after ?? null, limit: limit + 1 }
  const found = yield* log.value.list(page)
  const entries = found.slice(0, limit)
  return {
    changes: entries.map(({ at, ...entry }) => ({ ...entry, at: formatTime(at) })),
    next: found.length > limit ? (entries.at(-1)?.number ?? null) : null,
  }
})
