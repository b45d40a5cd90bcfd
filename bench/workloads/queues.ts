import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { type Child, startChild } from "../child/startChild.ts"
import type { Result, Task } from "../child/Task.ts"
import { type Bench, type Figures, type Metric, quantile, type Subject, subjectsOf, type Workload } from "./Workload.ts"

type Store = "sqlite" | "postgres"

const peers: Readonly<Record<Store, ReadonlyArray<string>>> = {
  sqlite: ["plainjob, fsync", "plainjob, no fsync", "openworkflow"],
  postgres: ["pg-boss", "graphile-worker", "BullMQ", "openworkflow"],
}

const rate: Metric = { key: "rate", title: "jobs", unit: "/s" }
const peak: Metric = { key: "peakMb", title: "peak memory", unit: "MB" }
const latency: ReadonlyArray<Metric> = [
  { key: "p50", title: "p50", unit: "ms" },
  { key: "p99", title: "p99", unit: "ms" },
]

const processOf = (bench: Bench, store: Store, subject: Subject, place: string, task: Task): Promise<Child> =>
  startChild(join(bench.programs, "child.mjs"), {
    store,
    engine: subject.role === "base" ? "kiln" : subject.name,
    place,
    kiln: bench.kilnOf(subject),
    task,
  })

/** Runs one task in one process from its beginning to its end. */
const once = async (bench: Bench, store: Store, subject: Subject, place: string, task: Task): Promise<Result> => {
  await using child = await processOf(bench, store, subject, place, task)
  child.tell("go")
  return await child.result
}

const figuresOf = ({ rate: measured, waitedMs, peakMb }: Result): Figures => ({
  ...(measured !== undefined && { rate: measured }),
  ...(waitedMs !== undefined && { p50: quantile(waitedMs, 0.5), p99: quantile(waitedMs, 0.99) }),
  peakMb,
})

const createBy =
  (bench: Bench, store: Store, callers: number) =>
  async (subject: Subject): Promise<Figures> => {
    await using database = await bench.place(store)
    const task: Task = { do: "create", callers, seconds: bench.quick ? 1 : 4 }
    return figuresOf(await once(bench, store, subject, database.place, task))
  }

interface DrainOptions {
  readonly jobs: number
  readonly processes: number
  /** The figure of an engine that is not done by then is what it has run. */
  readonly limitSeconds: number
}

/** Waits until everything is finished in the store, or the time is over; returns the rate. */
const awaitDrained = async (workers: ReadonlyArray<Child>, options: DrainOptions): Promise<number> => {
  const { jobs, limitSeconds } = options
  const from = performance.now()
  const seconds = () => (performance.now() - from) / 1e3
  const ran = () => workers.reduce((sum, worker) => sum + worker.ran(), 0)
  for (const worker of workers) worker.tell("go")
  const ended = Promise.race(workers.map((worker) => worker.result))
  while (ran() < jobs && seconds() < limitSeconds) await Promise.race([sleep(2), ended])
  if (ran() < jobs) return ran() / seconds()
  while (workers[0] !== undefined && !(await workers[0].isEmpty())) await sleep(1)
  return jobs / seconds()
}

/** Adds jobs in bulk, then runs them in other processes. Each engine runs its handler once a job here: nothing fails. */
const drain = async (bench: Bench, store: Store, subject: Subject, options: DrainOptions): Promise<Figures> => {
  await using database = await bench.place(store)
  const { rate: bulk = 0 } = await once(bench, store, subject, database.place, { do: "bulk", count: options.jobs })
  await database.settle()
  const task: Task = { do: "drain", report: 250 }
  await using stack = new AsyncDisposableStack()
  const workers: Array<Child> = []
  for (let index = 0; index < options.processes; index += 1) {
    workers.push(stack.use(await processOf(bench, store, subject, database.place, task)))
  }
  const drained = await awaitDrained(workers, options)
  for (const worker of workers) worker.tell("end")
  const results = await Promise.all(workers.map((worker) => worker.result))
  return { bulk, rate: drained, peakMb: Math.max(...results.map(({ peakMb }) => peakMb)) }
}

const pace =
  (bench: Bench, store: Store, jobsPerSecond: number, isApart: boolean) =>
  async (subject: Subject): Promise<Figures> => {
    await using database = await bench.place(store)
    const seconds = bench.quick ? 1.5 : 5
    const count = jobsPerSecond === 0 ? (bench.quick ? 60 : 200) : jobsPerSecond * seconds
    const task: Task = { do: "pace", count, rate: jobsPerSecond, worker: !isApart }
    if (!isApart) return figuresOf(await once(bench, store, subject, database.place, task))
    await using worker = await processOf(bench, store, subject, database.place, { do: "serve" })
    await using caller = await processOf(bench, store, subject, database.place, task)
    worker.onStarted = () => caller.tell("started")
    worker.tell("go")
    caller.tell("go")
    const { peakMb } = await caller.result
    while (worker.waitedMs.length < count) await Promise.race([sleep(5), worker.result])
    return figuresOf({ waitedMs: worker.waitedMs.slice(-count), peakMb })
  }

const groupOf: Readonly<Record<Store, string>> = { sqlite: "SQLite", postgres: "Postgres" }

const latencyWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> => {
  const workload = (id: string, title: string, jobsPerSecond: number, isApart: boolean): Workload => ({
    id: `${store}/${id}`,
    group: groupOf[store],
    title,
    metrics: latency,
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
          workload("start-300-apart", "submit to start, 300 jobs/s, caller and worker apart", 300, true),
        ]
      : []),
  ]
}

/** Work that every engine does: add jobs one by one and in bulk, and run them. */
export const queueWorkloads = (bench: Bench, store: Store): ReadonlyArray<Workload> => {
  const jobs = bench.quick ? 5_000 : 20_000
  const limitSeconds = bench.quick ? 3 : 15
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
        : [{ ...rate, title: "drain" }],
    run: (subject) => drain(bench, store, subject, { jobs, processes, limitSeconds }),
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
    drainBy(1),
    ...(store === "postgres" ? [drainBy(2), drainBy(4)] : []),
    ...latencyWorkloads(bench, store),
  ]
}
