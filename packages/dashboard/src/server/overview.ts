import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { listSchedules, monotonicMs } from "@kiln/core/effect"
import { KeyDirectory, Switchboard } from "@kiln/core/ports"
import type { ResultOf } from "../api/index.ts"
import type { Findings } from "./Findings.ts"
import { formatTime } from "./format.ts"
import {
  deliveryFields,
  mostMeasured,
  providerFields,
  queueFields,
  type ReadQueues,
  spendingFields,
  workerFields,
} from "./installation.ts"
import { readProjects } from "./names.ts"
import { readRecent } from "./recent.ts"
import { shared } from "./shared.ts"

/** Milliseconds for which parts that change slowly are good. */
const slowMs = 5_000
const findingsMs = 30_000

const readSchedules = Effect.map(listSchedules, ({ now, schedules }) => ({
  count: schedules.length,
  paused: schedules.filter(({ paused }) => paused).length,
  due: schedules.filter(({ nextAt, waits }) => nextAt !== null && nextAt <= now && waits !== true).length,
  refused: schedules.flatMap(({ name, refusal }) => (refusal === null ? [] : [{ name, refusal }])),
}))

const readSpending = Effect.gen(function* () {
  const spending = yield* (yield* Switchboard).listSpending
  if (spending.length === 0) return []
  const projects = yield* readProjects
  const keys = yield* (yield* KeyDirectory).listKeys
  const names = new Map<string, string>([
    ...projects.map(({ id, name }) => [id, name] as const),
    ...keys.map(({ id, name }) => [id, name ?? id] as const),
  ])
  return spending.map((each) => spendingFields(each, names))
})

/** Returns the effect that reads the overview, which all viewers share. */
export const makeOverview = <E, R>(measured: ReadQueues<E, R>, readFindings: Effect.Effect<Findings> | undefined) => {
  const recent = shared(Effect.flatMap(readProjects, readRecent), slowMs)
  const spending = shared(readSpending, slowMs)
  const schedules = shared(readSchedules, slowMs)
  const deliveries = shared(deliveryFields, slowMs)
  const findings = makeFindings(readFindings)
  return shared(
    Effect.gen(function* () {
      const queues = yield* measured
      const { pausedKinds, switches } = yield* (yield* Switchboard).readBoard
      const workers = yield* (yield* Switchboard).listWorkers
      const counted = queues.reduce(
        (sum, { delayed, ready, retrying, running }) => sum + delayed + ready + retrying + running,
        0,
      )
      return {
        at: formatTime(yield* Clock.currentTimeMillis),
        queue_is_partial: counted >= mostMeasured,
        queues: queues.map((row) => queueFields(row, pausedKinds)),
        recent: yield* recent,
        spending: yield* spending,
        providers: providerFields(workers),
        workers: workers.map(workerFields),
        deliveries: yield* deliveries,
        schedules: yield* schedules,
        switches,
        paused_types: pausedKinds,
        findings: yield* findings,
      } satisfies ResultOf<"overview">
    }),
  )
}

/** The doctor looks in the background, because it takes a while; until then the last findings are shown. */
const makeFindings = (read: Effect.Effect<Findings> | undefined): Effect.Effect<Findings | null> => {
  let known: Findings | null = null
  let nextAt = Number.NEGATIVE_INFINITY
  if (read === undefined) return Effect.succeed(null)
  return Effect.map(monotonicMs, (now) => {
    if (now >= nextAt) {
      nextAt = now + findingsMs
      Effect.runFork(Effect.map(read, (found) => void (known = found)))
    }
    return known
  })
}
