import { setTimeout as sleep } from "node:timers/promises"
import type { Drain, Result, Slots, Submission, Task } from "../child/Task.ts"
import type { Store } from "../engines/engines.ts"
import { drain, drainAmongFinished, once, processOf, type Setting } from "./drains.ts"
import { type Bench, type Figures, type Metric, quantile, type Subject, subjectsOf, type Workload } from "./Workload.ts"

const peers: Readonly<Record<Store, ReadonlyArray<string>>> = {
  sqlite: ["plainjob, fsync", "plainjob, no fsync", "openworkflow"],
  postgres: ["pg-boss", "graphile-worker", "BullMQ", "openworkflow"],
}

const rate: Metric = { key: "rate", title: "", unit: "/s" }
const peak: Metric = { key: "peakMb", title: "peak memory", unit: "MB" }
const latency: ReadonlyArray<Metric> = [
  { key: "p50", title: "p50", unit: "ms" },
  { key: "p99", title: "p99", unit: "ms" },
]

/** Runs `measure` on an empty database. */
const onEmpty =
  (bench: Bench, store: Store, measure: (setting: Setting) => Promise<Figures>) =>
  async (subject: Subject): Promise<Figures> => {
    await using database = await bench.place(store)
    return await measure({ bench, store, subject, database })
  }

const figuresOf = ({ rate: measured, waitedMs, peakMb }: Result): Figures => ({
  ...(measured !== undefined && { rate: measured }),
  ...(waitedMs !== undefined && { p50: quantile(waitedMs, 0.5), p99: quantile(waitedMs, 0.99) }),
  peakMb,
})

const createBy = (bench: Bench, store: Store, callers: number, as?: Submission) =>
  onEmpty(bench, store, async (setting) =>
    figuresOf(await once(setting, { do: "create", callers, seconds: bench.quick ? 1 : 3, ...(as && { as }) })),
  )

const submissions: ReadonlyArray<Submission> = [
  "live with a price",
  "under a spend cap",
  "with a tag",
  "unique",
  "under a cap",
  "traced",
]

/** Submissions that need more than a row. Peers do not have most of them, so only kiln is measured. */
const submissionWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> =>
  submissions.flatMap((as) =>
    [1, 32].map((callers) => ({
      id: `${store}/create-${callers}-${as.replaceAll(" ", "-")}`,
      group: groupOf[store],
      title: `create ${as}, ${callers === 1 ? "1 caller" : `${callers} callers`}`,
      metrics: [rate],
      isRealistic: as === "live with a price" || as === "under a cap",
      subjects: subjectsOf(bench, [], false),
      run: createBy(bench, store, callers, as),
    })),
  )

const pace = (bench: Bench, store: Store, jobsPerSecond: number, isApart: boolean) =>
  onEmpty(bench, store, async (setting) => {
    const seconds = bench.quick ? 1.5 : 5
    const count = jobsPerSecond === 0 ? (bench.quick ? 40 : 200) : jobsPerSecond * seconds
    const task: Task = { do: "pace", count, rate: jobsPerSecond, worker: !isApart }
    if (!isApart) return figuresOf(await once(setting, task))
    await using worker = await processOf(setting, { do: "serve" })
    await using caller = await processOf(setting, task)
    worker.onStarted = () => caller.tell("started")
    worker.tell("go")
    caller.tell("go")
    const { peakMb } = await caller.result
    while (worker.waitedMs.length < count) await Promise.race([sleep(5), worker.result])
    return figuresOf({ waitedMs: worker.waitedMs.slice(-count), peakMb })
  })

const groupOf: Readonly<Record<Store, string>> = { sqlite: "SQLite", postgres: "Postgres" }

const latencyWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> => {
  const workload = (id: string, title: string, jobsPerSecond: number, isApart: boolean): Workload => ({
    id: `${store}/${id}`,
    group: groupOf[store],
    title,
    metrics: latency,
    isRealistic: id.startsWith("start-300"),
    // Far more jobs than it can start: it would measure its backlog.
    subjects: subjectsOf(
      bench,
      peers[store].filter((name) => jobsPerSecond === 0 || name !== "openworkflow"),
      false,
    ),
    run: pace(bench, store, jobsPerSecond, isApart),
  })
  return [
    workload("start-idle", "submit to start, idle, one process", 0, false),
    workload("start-300", "submit to start, 300 jobs/s, one process", 300, false),
    ...(store === "postgres"
      ? [
          workload("start-idle-apart", "submit to start, idle, caller and worker apart", 0, true),
          ...(bench.quick
            ? []
            : [workload("start-300-apart", "submit to start, 300 jobs/s, caller and worker apart", 300, true)]),
        ]
      : []),
  ]
}

/** Retention removes finished jobs, as it does after a busy day, while others are submitted and run. */
const sweptWorkload = (bench: Bench, store: Store): Workload => {
  const finished = bench.quick ? 20_000 : 200_000
  return {
    id: `${store}/start-300-swept`,
    group: groupOf[store],
    title: `submit to start, 300 jobs/s, while retention removes ${finished.toLocaleString("en")} jobs`,
    metrics: latency,
    isRealistic: true,
    subjects: subjectsOf(bench, [], false),
    run: onEmpty(bench, store, async (setting) => {
      await drain(setting, { jobs: finished, processes: 1, limitSeconds: 120 })
      const count = 300 * (bench.quick ? 1.5 : 5)
      return figuresOf(await once(setting, { do: "pace", count, rate: 300, worker: true, as: "a sweep" }))
    }),
  }
}

/** The time of a call in a transaction of the caller, who waits for it with rows locked. */
const transactionWorkloads = (bench: Bench): ReadonlyArray<Workload> => {
  const workload = (size: number, count: number, title: string): Workload => ({
    id: `postgres/in-transaction-${size}`,
    group: groupOf.postgres,
    title,
    metrics: latency,
    subjects: subjectsOf(bench, ["pg-boss"], false),
    run: onEmpty(bench, "postgres", async (setting) =>
      figuresOf(await once(setting, { do: "inTransaction", count, size })),
    ),
  })
  return [
    workload(1, bench.quick ? 200 : 1_000, "1 job in the caller's transaction"),
    workload(1_000, bench.quick ? 10 : 40, "1,000 jobs in the caller's transaction"),
  ]
}

/** Engines that are quick enough for a hundred thousand jobs. */
const quickPeers: Readonly<Record<Store, ReadonlyArray<string>>> = {
  sqlite: ["plainjob, no fsync"],
  postgres: ["pg-boss", "graphile-worker"],
}

const manyJobs = (bench: Bench, store: Store): ReadonlyArray<Workload> => {
  const common = { group: groupOf[store], subjects: subjectsOf(bench, quickPeers[store], false), mostRounds: 1 }
  const memory: Workload = {
    ...common,
    id: `${store}/memory`,
    title: "drain of 100,000 jobs",
    metrics: [peak],
    run: onEmpty(bench, store, (setting) => drain(setting, { jobs: 100_000, processes: 1, limitSeconds: 300 })),
  }
  const million: Workload = {
    ...common,
    id: `${store}/million`,
    title: "drain of 20,000 jobs",
    // graphile-worker keeps no rows.
    subjects: common.subjects.filter(({ name }) => name !== "graphile-worker"),
    metrics: [
      { key: "empty", title: "in an empty table", unit: "/s" },
      { key: "full", title: "beside a million finished jobs", unit: "/s" },
      { key: "slower", title: "times slower beside them", unit: "×" },
    ],
    run: onEmpty(bench, store, drainAmongFinished),
  }
  return [...(bench.quick ? [] : [memory]), ...(bench.long ? [million] : [])]
}

/** The drains by name, and how many jobs they have compared with the plain one: a worker with few slots claims more often. */
const limitedDrains: ReadonlyArray<readonly [as: Drain, share: number]> = [
  ["200 projects", 1],
  ["limit 10 a project", 1],
  ["limit of a kind", 1],
  ["a rate", 1],
  ["8 slots", 0.25],
  ["8 slots, 200 projects", 0.25],
]

/** Drains of jobs that limits apply to. A limit that holds back no job must cost little. */
const limitWorkloads = (bench: Bench, store: Store, jobs: number, limitSeconds: number): ReadonlyArray<Workload> =>
  limitedDrains.map(([as, share]) => ({
    id: `${store}/drain-${as.replaceAll(/,? /g, "-")}`,
    group: groupOf[store],
    title: `drain, one process, ${as}`,
    metrics: [rate],
    isRealistic: as === "8 slots" || as === "8 slots, 200 projects",
    subjects: subjectsOf(bench, [], false),
    run: onEmpty(bench, store, async (setting) => {
      const { rate: drained = Number.NaN } = await drain(setting, {
        jobs: jobs * share,
        processes: 1,
        limitSeconds,
        as,
      })
      return { rate: drained }
    }),
  }))

/** Jobs that wait 20 ms for a provider, as real ones wait for seconds: how much of the time the slots are in use. */
const waitingWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> =>
  ([8, 32] satisfies ReadonlyArray<Slots>).map((slots) => ({
    id: `${store}/waiting-${slots}`,
    group: groupOf[store],
    title: `jobs of 20 ms, ${slots} slots (${slots * 50} possible)`,
    metrics: [rate],
    isRealistic: true,
    subjects: subjectsOf(
      bench,
      store === "postgres" ? ["graphile-worker", "BullMQ", "openworkflow"] : ["openworkflow"],
      false,
    ),
    run: onEmpty(bench, store, async (setting) => {
      const seconds = bench.quick ? 2 : 6
      const options = { jobs: slots * 50 * seconds, processes: 1, limitSeconds: seconds * 5, waiting: slots }
      const { rate: ended = Number.NaN } = await drain(setting, options)
      return { rate: ended }
    }),
  }))

/** Work that every engine does: add jobs one by one and in bulk, and run them. */
export const queueWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> => {
  const jobs = bench.quick ? 4_000 : 20_000
  const limitSeconds = bench.quick ? 2 : 8
  const common = { group: groupOf[store], subjects: subjectsOf(bench, peers[store], true) }
  const drainBy = (processes: number): Workload => ({
    ...common,
    id: processes === 1 ? `${store}/queue` : `${store}/drain-${processes}`,
    title: processes === 1 ? `${jobs.toLocaleString("en")} jobs` : `drain, ${processes} processes`,
    metrics:
      processes === 1
        ? [
            { key: "bulk", title: "add in bulk", unit: "/s" },
            { key: "rate", title: "drain, one process", unit: "/s" },
            { key: "peakMb", title: "peak memory of the drain", unit: "MB" },
          ]
        : [rate],
    run: onEmpty(bench, store, (setting) => drain(setting, { jobs, processes, limitSeconds })),
  })
  return [
    { ...common, id: `${store}/create-1`, title: "create, 1 caller", metrics: [rate], run: createBy(bench, store, 1) },
    {
      ...common,
      id: `${store}/create-32`,
      title: "create, 32 callers",
      metrics: [rate, peak],
      run: createBy(bench, store, 32),
    },
    ...submissionWorkloads(bench, store),
    drainBy(1),
    ...(store === "postgres" ? [drainBy(2), ...(bench.quick ? [] : [drainBy(4)])] : []),
    ...(store === "postgres" ? limitWorkloads(bench, store, jobs, limitSeconds) : []),
    ...waitingWorkloads(bench, store),
    ...latencyWorkloads(bench, store),
    sweptWorkload(bench, store),
    ...(store === "postgres" ? transactionWorkloads(bench) : []),
    ...manyJobs(bench, store),
  ]
}
