import { fork } from "node:child_process"
import { setTimeout as sleep } from "node:timers/promises"
import { peakMbOf } from "./peakMb.ts"
import type { ChildOptions, Message, Order, Result } from "./Task.ts"

/** A measured process that has opened its engine. */
export interface Child extends AsyncDisposable {
  readonly tell: (order: Order) => void
  /** Its figures. Rejects if the process ends without them. */
  readonly result: Promise<Result>
  /** Asks it to end, and kills it if it is too busy to read that; its figures are those of its memory. */
  readonly end: () => Promise<Result>
  /** How many jobs it has run. */
  readonly ran: () => number
  readonly isEmpty: () => Promise<boolean>
  /** How long each job waited that it has started so far, in milliseconds. */
  readonly waitedMs: ReadonlyArray<number>
  /** Called after each job that it starts. */
  onStarted: () => void
}

/** Starts a process and waits until its engine is open. `program` is the bundled child. */
export const startChild = async (program: string, options: ChildOptions): Promise<Child> => {
  const process = fork(program, [JSON.stringify(options)], { stdio: ["ignore", "ignore", "pipe", "ipc"], execArgv: [] })
  let said = ""
  process.stderr?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-4_000)))
  let ran = 0
  let answered: (isEmpty: boolean) => void = () => {}
  const waitedMs: Array<number> = []
  const ready = Promise.withResolvers<void>()
  const result = Promise.withResolvers<Result>()
  const child: Child = {
    // A process that has just ended has already said what it measured, or fails `result`.
    tell: (order) => void process.send(order, () => {}),
    result: result.promise,
    end: () => {
      child.tell("end")
      const late = sleep(1_000).then((): Result => ({ peakMb: peakMbOf(process.pid ?? 0) ?? Number.NaN }))
      return Promise.race([result.promise, late])
    },
    ran: () => ran,
    isEmpty: () =>
      new Promise((resolve, reject) => {
        answered = resolve
        result.promise.catch(reject)
        process.send("isEmpty" satisfies Order, () => {})
      }),
    waitedMs,
    onStarted: () => {},
    [Symbol.asyncDispose]: async () => {
      process.kill("SIGKILL")
      await gone.promise
    },
  }
  const gone = Promise.withResolvers<void>()
  process.on("message", (message: Message) => {
    if (message.type === "ready") ready.resolve()
    else if (message.type === "ran") ran = message.ran
    else if (message.type === "isEmpty") answered(message.isEmpty)
    else if (message.type === "result") result.resolve(message.result)
    else {
      waitedMs.push(message.waitedMs)
      child.onStarted()
    }
  })
  process.on("close", (code, signal) => {
    gone.resolve()
    const failure = new Error(`${options.engine} ended (${code ?? signal}) during ${options.task.do}:\n${said}`)
    ready.reject(failure)
    result.reject(failure)
  })
  result.promise.catch(() => {})
  await ready.promise
  return child
}
