import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { JsonObject } from "@kiln/core/domain"
import { type HistoryMinute, JobDirectory, MinuteHistory, type PublishedWorker, Switchboard } from "@kiln/core/ports"
import type { InputOf, ResultOf } from "../api/index.ts"
import { mostMeasured } from "./installation.ts"
import { shared } from "./shared.ts"

const minuteMs = 60_000
const spans = { "1h": { minutes: 60, step: 1 }, "24h": { minutes: 1_440, step: 10 } } as const

/** The figures of one type and mode: ready, running, waiting, age of the oldest ready job in ms, done, failed. */
type Figures = readonly [number, number, number, number, number, number]
const none: Figures = [0, 0, 0, 0, 0, 0]

/** The field of a minute that counts workers by version. No type and mode has this name, because theirs contain a space. */
const versionsField = "versions"
const mostVersions = 10
const longestVersion = 40

const countVersions = (workers: ReadonlyArray<PublishedWorker>): JsonObject => {
  const versions = workers.flatMap(({ scope }) => scope?.state?.version?.slice(0, longestVersion) ?? [])
  const counts = [...Map.groupBy(versions, (version) => version)].map(
    ([version, all]) => [version, all.length] as const,
  )
  return Object.fromEntries(counts.slice(0, mostVersions))
}

/** Measures the current minute: the queue, the jobs that finished within a minute, and the versions of the workers. */
const measureMinute = Effect.gen(function* () {
  const directory = yield* JobDirectory
  const depths = yield* directory.measureQueue({ limit: mostMeasured })
  const finished = yield* directory.countJobs({ finishedWithinMs: minuteMs, unfinished: false })
  const types = new Map<string, Figures>()
  for (const { delayed, kind, mode, oldestReadyMs, ready, retrying, running } of depths)
    types.set(`${kind} ${mode}`, [ready, running, delayed + retrying, oldestReadyMs, 0, 0])
  for (const { count, kind, mode, status } of finished) {
    const [ready, running, waiting, oldest, done, failed] = types.get(`${kind} ${mode}`) ?? none
    types.set(
      `${kind} ${mode}`,
      status === "done"
        ? [ready, running, waiting, oldest, done + count, failed]
        : [ready, running, waiting, oldest, done, failed + count],
    )
  }
  const versions = countVersions(yield* (yield* Switchboard).listWorkers)
  return { ...(Object.fromEntries(types) as JsonObject), [versionsField]: versions }
})

/**
 * Records the figures of each minute, forever. Every process may run it; of each minute, the first one is kept. A store without a
 * history records nothing.
 */
export const recordHistory = Effect.gen(function* () {
  const history = yield* Effect.serviceOption(MinuteHistory)
  if (Option.isNone(history)) return
  const record = Effect.flatMap(measureMinute, history.value.writeMinute)
  const untilNextMinute = Effect.map(Clock.currentTimeMillis, (now) => minuteMs - (now % minuteMs) + 500)
  yield* Effect.forever(
    Effect.andThen(
      record.pipe(Effect.catch((error) => Effect.logDebug("the figures of a minute were not recorded", error))),
      Effect.flatMap(untilNextMinute, Effect.sleep),
    ),
  )
})

const figuresOf = ({ figures }: HistoryMinute): ReadonlyMap<string, Figures> =>
  new Map(
    Object.entries(figures).flatMap(([name, value]) => {
      if (!Array.isArray(value)) return []
      const [ready = 0, running = 0, waiting = 0, oldest = 0, done = 0, failed = 0] = value.map(Number)
      return [[name, [ready, running, waiting, oldest, done, failed]] as const]
    }),
  )

/** Merges the minutes of one step: the largest depth, and the sum of finished jobs. */
const merged = (all: ReadonlyArray<Figures>): Figures =>
  all.reduce<Figures>(
    (one, other) => [
      Math.max(one[0], other[0]),
      Math.max(one[1], other[1]),
      Math.max(one[2], other[2]),
      Math.max(one[3], other[3]),
      one[4] + other[4],
      one[5] + other[5],
    ],
    none,
  )

const added = (all: ReadonlyArray<Figures>): Figures =>
  all.reduce<Figures>(
    (one, other) => [
      one[0] + other[0],
      one[1] + other[1],
      one[2] + other[2],
      Math.max(one[3], other[3]),
      one[4] + other[4],
      one[5] + other[5],
    ],
    none,
  )

const versionsOf = ({ figures }: HistoryMinute): ReadonlyArray<string> => {
  const versions = figures[versionsField]
  return typeof versions === "object" && versions !== null && !Array.isArray(versions) ? Object.keys(versions) : []
}

/** Returns the first sight of each version, except of those that the first minute with workers has. */
export const deploysOf = (minutes: ReadonlyArray<HistoryMinute>, stepMs: number): ResultOf<"history">["deploys"] => {
  const [first, ...others] = minutes.filter((minute) => versionsOf(minute).length > 0)
  const seen = new Set(first === undefined ? [] : versionsOf(first))
  return others.flatMap((minute) =>
    versionsOf(minute)
      .filter((version) => !seen.has(version) && seen.add(version))
      .map((version) => ({ at: (minute.at - (minute.at % stepMs)) / 1_000, version })),
  )
}

const chart = (minutes: ReadonlyArray<HistoryMinute>, step: number): ResultOf<"history"> => {
  const stepMs = step * minuteMs
  const steps = [...Map.groupBy(minutes, ({ at }) => at - (at % stepMs))].map(([at, all]) => {
    const parts = all.map(figuresOf)
    const names = [...new Set(parts.flatMap((part) => [...part.keys()]))]
    return { at, types: new Map(names.map((name) => [name, merged(parts.map((part) => part.get(name) ?? none))])) }
  })
  const names = [...new Set(steps.flatMap(({ types }) => [...types.keys()]))].toSorted()
  const series = (name: string, index: 0 | 1 | 2 | 3 | 4 | 5) =>
    steps.map(({ types }) => (types.get(name) ?? none)[index] / (index === 3 ? 1_000 : 1))
  return {
    step_seconds: stepMs / 1_000,
    deploys: deploysOf(minutes, stepMs),
    points: steps.map(({ at, types }) => {
      const [ready, running, waiting, oldest, done, failed] = added([...types.values()])
      return { at: at / 1_000, ready, running, waiting, oldest_ready_seconds: oldest / 1_000, done, failed }
    }),
    types: Object.fromEntries(
      names.map((name) => [
        name,
        {
          ready: series(name, 0),
          running: series(name, 1),
          oldest_ready_seconds: series(name, 3),
          done: series(name, 4),
          failed: series(name, 5),
        },
      ]),
    ),
  }
}

/** Returns the operation that reads the history, whose results all viewers share. */
export const makeHistory = () => {
  const read = (span: keyof typeof spans) =>
    shared(
      Effect.gen(function* () {
        const { minutes, step } = spans[span]
        const history = yield* Effect.serviceOption(MinuteHistory)
        return chart(Option.isNone(history) ? [] : yield* history.value.listMinutes(minutes * minuteMs), step)
      }),
      15_000,
    )
  const bySpan = { "1h": read("1h"), "24h": read("24h") }
  return ({ query: { span = "1h" } }: InputOf<"history">) => bySpan[span]
}
