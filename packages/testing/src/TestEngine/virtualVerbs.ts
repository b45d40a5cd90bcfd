import type { DrainOptions, EmbeddedEngine, JobReference, Kind } from "@kiln/core"
import { type JobId, requireOptions } from "@kiln/core/domain"
import { type JobEvents, partsOfSubmitAndWait } from "@kiln/core/effect"
import type { TimeTravel } from "./TimeTravel.ts"
import type { Runner } from "./Runner.ts"
import type { TestEngine } from "./TestEngine.ts"
import { millisecondsOf } from "./TimeSpan.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Default timeout of `wait`. */
const defaultWaitMs = 300_000
/** Time until every worker applies a change of switches, prices or pauses. */
const settlingMs = 1_000

/** A failure is reported to waiters, if any: a test may end while an attempt still hangs. */
const heard = <A>(promise: Promise<A>): Promise<A> => {
  promise.catch(() => undefined)
  return promise
}

type AnyDrainOptions = DrainOptions | { readonly throughRetries?: boolean }
type Own<K extends Kind> = Pick<TestEngine<K>, "now" | "advance" | "runNext" | "drain" | "start" | "operator">
type Inline<K extends Kind> = Pick<
  EmbeddedEngine<K, object, object>,
  "submit" | "submitMany" | "submitAndWait" | "wait"
>

/** Methods of an engine that does nothing on its own. */
export const manualVerbs = <K extends Kind>(
  { drain, get, operator }: Pick<EmbeddedEngine<K>, "drain" | "get" | "operator">,
  time: VirtualTime,
  timeTravel: TimeTravel,
  runner: Runner,
  mode: "inline" | "manual",
): Own<K> => {
  const advance = async (ms: number) => {
    await timeTravel.advance(ms)
    if (mode === "inline") await runner.drain(false)
  }
  const drained = async (given: AnyDrainOptions | undefined) => {
    const options = given ?? {}
    if ("maxMs" in options) return drain(options)
    requireOptions("drain()", options, { throughRetries: true, maxMs: true })
    return runner.drain(options.throughRetries ?? false)
  }
  /** Runs a method and waits until it takes effect. */
  const settling =
    <Args extends ReadonlyArray<unknown>>(verb: (...args: Args) => Promise<void>) =>
    async (...args: Args): Promise<void> => {
      await verb(...args)
      await advance(settlingMs)
    }
  return {
    now: () => new Date(time.now()),
    advance: async (span) => advance(millisecondsOf(span)),
    runNext: () => heard(runner.runNext().then((jobId) => jobId && get(jobId))),
    drain: ((options?: AnyDrainOptions) => heard(drained(options))) as Own<K>["drain"],
    // A background worker would run in time that stands still.
    start: () => Promise.resolve(),
    operator: {
      ...operator,
      pause: settling(operator.pause),
      resume: settling(operator.resume),
      setSwitch: settling(operator.setSwitch),
      setPrice: settling(operator.setPrice),
    },
  }
}

/** Methods after which a job is finished. */
export const inlineVerbs = <K extends Kind>(
  { get, operator, submit, submitMany, wait }: EmbeddedEngine<K, object, object>,
  { advance }: TimeTravel,
  { finish }: Runner,
  events: JobEvents["Service"],
): Inline<K> & Pick<EmbeddedEngine<K>, "operator"> => {
  const verbs: Inline<K> = {
    submit: async (kind, request, options) => {
      const job = await submit(kind, request, options)
      // It runs when the transaction commits.
      if (options?.transaction !== undefined) return job
      await finish(job.id)
      const finished = await get(job)
      return (job.deduplicated === true ? { ...(finished as object), deduplicated: true } : finished) as typeof job
    },
    submitMany: async (kind, submissions, options) => {
      const outcomes = await submitMany(kind, submissions, options)
      if (options?.transaction !== undefined) return outcomes
      for (const { job } of outcomes) if (job !== undefined) await finish(job.id)
      return Promise.all(
        outcomes.map(async (each) => (each.job === undefined ? each : { ...each, job: await get(each.job) })),
      ) as Promise<typeof outcomes>
    },
    submitAndWait: async (kind, request, options = {}) => {
      const { submitting, waiting } = partsOfSubmitAndWait(options)
      return verbs.wait(await verbs.submit(kind, request, submitting), waiting)
    },
    wait: async (job, options = {}) => {
      await finish(idOf(job))
      // A job that cannot continue is awaited until the timeout.
      // The job may be unknown, which both calls say.
      const waiting = heard(wait(job, options))
      const seen = await get(job)
      if (seen.status === "done" || seen.status === "failed") return waiting
      const [finished] = await Promise.all([waiting, advance(options.timeoutMs ?? defaultWaitMs)])
      return finished
    },
  }
  return {
    ...verbs,
    operator: {
      ...operator,
      retry: async (job, options) => {
        const again = await operator.retry(job, options)
        await finish(again.id)
        return get(again)
      },
      retryMany: async (filter, options) => {
        const again: Array<JobId> = []
        const deafen = events.listen((event) => {
          if (event.type === "queued") again.push(event.jobId)
        })
        const result = await operator.retryMany(filter, options).finally(deafen)
        for (const jobId of again) await finish(jobId)
        return result
      },
    },
  }
}

/** Read before a test can replace them. */
const { clearInterval, setInterval } = globalThis
const lookMs = 500
/** Looks in a row that find nothing going on: 4 s of real time, less than the limit of a test in most runners. */
const idleLooks = 8

const nothingRuns = (jobId: string) =>
  new Error(
    `wait() would never end: in manual mode, jobs run only in runNext() and drain(), and ${jobId} has not finished; ` +
      'call drain() before you await it, advance() the time if it is not due, or use the mode "inline"',
  )

/** Methods that wait for a job which the test runs meanwhile. Time stands still, so no timeout would end a wait for one that it does not run. */
export const watchedVerbs = <K extends Kind>(
  { submit, wait }: Pick<EmbeddedEngine<K, object, object>, "submit" | "wait">,
  own: Own<K>,
): Own<K> & Pick<Inline<K>, "submitAndWait" | "wait"> => {
  let calls = 0
  let running = 0
  const noted = <A>(result: Promise<A>): Promise<A> => {
    calls += 1
    running += 1
    return result.finally(() => (running -= 1))
  }
  const verbs: Pick<Inline<K>, "submitAndWait" | "wait"> = {
    submitAndWait: async (kind, request, options = {}) => {
      const { submitting, waiting } = partsOfSubmitAndWait(options)
      return verbs.wait(await submit(kind, request, submitting), waiting)
    },
    wait: async (job, options = {}) => {
      const idle = new AbortController()
      let seen = calls
      let looks = 0
      const timer = setInterval(() => {
        looks = running > 0 || seen !== calls ? 0 : looks + 1
        seen = calls
        if (looks >= idleLooks) idle.abort(nothingRuns(idOf(job)))
      }, lookMs)
      const { signal = idle.signal } = Object(options) as typeof options
      // `wait` refuses anything else.
      const isValid = Object(options) === options && signal instanceof AbortSignal
      try {
        return await wait(job, isValid ? { ...options, signal: AbortSignal.any([signal, idle.signal]) } : options)
      } finally {
        clearInterval(timer)
      }
    },
  }
  return {
    ...own,
    ...verbs,
    advance: (span) => noted(own.advance(span)),
    runNext: () => heard(noted(own.runNext())),
    drain: ((options?: object) => heard(noted(own.drain(options)))) as Own<K>["drain"],
  }
}

const idOf = (job: JobReference<string>): JobId =>
  (typeof job === "string" ? job : (job as Partial<typeof job> | undefined)?.id) as JobId
