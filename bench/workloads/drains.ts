import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { type Child, startChild } from "../child/startChild.ts"
import type { Drain, Result, Slots, Task } from "../child/Task.ts"
import { median } from "../measure.ts"
import type { Store } from "../engines/engines.ts"
import type { Bench, Figures, Place, Subject } from "./Workload.ts"

/** One engine and its database. */
export interface Setting {
  readonly bench: Bench
  readonly store: Store
  readonly subject: Subject
  readonly database: Place
}

export const processOf = ({ bench, database, store, subject }: Setting, task: Task): Promise<Child> =>
  startChild(join(bench.programs, "child.mjs"), {
    store,
    engine: subject.role === "base" ? "kiln" : subject.name,
    place: database.place,
    kiln: bench.kilnOf(subject),
    task,
  })

/** Runs one task in one process from its beginning to its end. */
export const once = async (setting: Setting, task: Task): Promise<Result> => {
  await using child = await processOf(setting, task)
  child.tell("go")
  return await child.result
}

export interface DrainOptions {
  readonly jobs: number
  readonly processes: number
  /** An engine that takes longer is stopped, and its rate is that of the jobs it has run. */
  readonly limitSeconds: number
  readonly as?: Drain
  readonly waiting?: Slots
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

/** Adds jobs in bulk, then runs them in other processes. */
export const drain = async (setting: Setting, options: DrainOptions): Promise<Figures> => {
  const as = options.as === undefined ? {} : { as: options.as }
  const { rate: bulk = 0 } = await once(setting, { do: "bulk", count: options.jobs, ...as })
  await setting.database.settle()
  const { waiting } = options
  const task: Task = { do: "drain", report: waiting ?? 250, ...as, ...(waiting !== undefined && { waiting }) }
  await using stack = new AsyncDisposableStack()
  const workers: Array<Child> = []
  for (let index = 0; index < options.processes; index += 1) {
    workers.push(stack.use(await processOf(setting, task)))
  }
  const drained = await awaitDrained(workers, options)
  const results = await Promise.all(workers.map((worker) => worker.end()))
  return { bulk, rate: drained, peakMb: Math.max(...results.map(({ peakMb }) => peakMb)) }
}

/** Returns the median rate of three drains of 20,000 jobs. */
const medianDrain = async (setting: Setting): Promise<number> => {
  const rates: Array<number> = []
  for (let round = 0; round < 3; round += 1) {
    const { rate = Number.NaN } = await drain(setting, { jobs: 20_000, processes: 1, limitSeconds: 60 })
    rates.push(rate)
  }
  return median(rates)
}

/** Drains 20,000 jobs in an almost empty table, and again when a million have finished there. */
export const drainAmongFinished = async (setting: Setting): Promise<Figures> => {
  const empty = await medianDrain(setting)
  for (let hundred = 0; hundred < 10; hundred += 1) {
    await drain(setting, { jobs: 100_000, processes: 1, limitSeconds: 600 })
  }
  const full = await medianDrain(setting)
  return { empty, full, slower: empty / full }
}
