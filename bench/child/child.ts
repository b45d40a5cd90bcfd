// One measured process: opens one engine, does one task, and reports over IPC. Started by runChild.ts.
import { setTimeout as sleep } from "node:timers/promises"
import { Client } from "pg"
import { now, type Opened, type Payload } from "../engines/Engine.ts"
import { engineOf } from "../engines/engines.ts"
import { peakMb } from "./peakMb.ts"
import type { ChildOptions, Message, Order, Result, Task } from "./Task.ts"

const options = JSON.parse(process.argv[2] ?? "") as ChildOptions
const say = (message: Message): void => void process.send?.(message)

/** How long a job takes whose provider is waited for, in milliseconds. */
const napMs = 20

const waiting = "waiting" in options.task ? options.task.waiting : undefined
let onStart: (payload: Payload) => void = () => {}
const begin = (payload: Payload): void => onStart(payload)
const engine = await engineOf(options.store, options.engine).open({
  place: options.place,
  kiln: options.kiln,
  // A job that waits counts when it has ended.
  onStart: waiting === undefined ? begin : (payload) => sleep(napMs, payload).then(begin),
  slots: waiting,
  as: "as" in options.task ? options.task.as : undefined,
})

const payload = (): Payload => ({ at: now() })
const payloads = (count: number): ReadonlyArray<Payload> => Array.from({ length: count }, payload)

const create = async (opened: Opened, callers: number, endsAt: number): Promise<number> => {
  let count = 0
  const call = async (): Promise<void> => {
    while (now() < endsAt) {
      await opened.add(payload())
      count += 1
    }
  }
  await Promise.all(Array.from({ length: callers }, call))
  return count
}

const measureCreate = async ({ callers, seconds }: { readonly callers: number; readonly seconds: number }) => {
  await create(engine, callers, now() + 0.3e9 * Math.min(1, seconds))
  const from = now()
  const count = await create(engine, callers, from + seconds * 1e9)
  return { rate: count / ((now() - from) / 1e9) }
}

const measureBulk = async ({ count }: { readonly count: number }) => {
  await engine.addMany(payloads(10))
  const work = payloads(count - 10)
  const from = now()
  await engine.addMany(work)
  return { rate: work.length / ((now() - from) / 1e9) }
}

const measureInTransaction = async ({ count, size }: Extract<Task, { do: "inTransaction" }>) => {
  const { addInTransaction } = engine
  if (addInTransaction === undefined) throw new Error("this engine adds nothing in a transaction of its caller")
  const client = new Client({ connectionString: options.place })
  await client.connect()
  await client.query("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY)")
  const warm = 5
  const tookMs: Array<number> = []
  for (let index = 0; index < warm + count; index += 1) {
    const work = payloads(size)
    await client.query("BEGIN")
    await client.query("INSERT INTO orders DEFAULT VALUES")
    const from = now()
    await addInTransaction(client, work)
    tookMs.push((now() - from) / 1e6)
    await client.query("COMMIT")
  }
  return { waitedMs: tookMs.slice(warm) }
}

/** Counts what has run. An engine that never yields while it has work reaches no timer, so the count itself reports. */
const drain = ({ report }: { readonly report: number }): void => {
  let ran = 0
  let said = 0
  const tell = (): void => {
    if (said === ran) return
    said = ran
    say({ type: "ran", ran })
  }
  onStart = () => {
    ran += 1
    if (ran % report === 0) tell()
  }
  setInterval(tell, 5)
}

const waitedMs = (): Array<number> => {
  const all: Array<number> = []
  onStart = ({ at }) => void all.push((now() - at) / 1e6)
  return all
}

/** Submits one job, and the next 10 to 20 ms after the parent or the worker here has seen it start. */
const idle = async (count: number, started: () => Promise<void>): Promise<void> => {
  for (let index = 0; index < count; index += 1) {
    const seen = started()
    await engine.add(payload())
    await seen
    await sleep(10 + (index % 11))
  }
}

/** Submits at a fixed rate, whatever becomes of the jobs. */
const open = async (count: number, rate: number): Promise<void> => {
  const from = now()
  const calls: Array<unknown> = []
  for (let index = 0; index < count; index += 1) {
    const aheadMs = (from + (index / rate) * 1e9 - now()) / 1e6
    if (aheadMs > 0) await sleep(aheadMs)
    calls.push(engine.add(payload()))
  }
  await Promise.all(calls)
}

let whenStarted: () => void = () => {}
const nextStart = (): Promise<void> => new Promise((resolve) => (whenStarted = resolve))

const pace = async ({ count, rate, worker }: Extract<Task, { do: "pace" }>): Promise<Omit<Result, "peakMb">> => {
  const all = waitedMs()
  if (worker) {
    const keep = onStart
    onStart = (given) => {
      keep(given)
      whenStarted()
    }
    await engine.start()
  }
  const warm = 20
  await idle(warm, nextStart)
  await sleep(300)
  if (rate === 0) await idle(count, nextStart)
  else await open(count, rate)
  const expected = worker ? warm + count : 0
  while (all.length < expected) await sleep(5)
  return { waitedMs: all.slice(warm) }
}

const serve = async (): Promise<void> => {
  onStart = ({ at }) => say({ type: "started", waitedMs: (now() - at) / 1e6 })
  await engine.start()
}

const finish = (result: Omit<Result, "peakMb">): void => {
  const message: Message = { type: "result", result: { ...result, peakMb: peakMb() } }
  // Closing an engine is not measured, and some take seconds.
  process.send?.(message, undefined, undefined, () => process.kill(process.pid, "SIGKILL"))
}

process.on("message", (order: Order) => {
  if (order === "started") whenStarted()
  else if (order === "go") void perform()
  else if (order === "end") finish({})
  else void engine.isEmpty().then((isEmpty) => say({ type: "isEmpty", isEmpty }))
})

// Its parent was stopped.
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"))

const perform = async (): Promise<void> => {
  const { task } = options
  if (task.do === "create") finish(await measureCreate(task))
  else if (task.do === "bulk") finish(await measureBulk(task))
  else if (task.do === "inTransaction") finish(await measureInTransaction(task))
  else if (task.do === "pace") finish(await pace(task))
  else if (task.do === "serve") await serve()
  else {
    drain(task)
    await engine.start()
  }
}

say({ type: "ready" })
