import type { OpenAiEndpoint } from "./Endpoint.ts"
import { openJournal, readJournal } from "./Journal.ts"
import type { OpenAiOutcome, RecordedOpenAiCall } from "./RecordedCall.ts"

type Opening = Omit<RecordedOpenAiCall, "number" | "outcome" | "beganAtMs">

/** A call in progress. */
export interface OpenCall {
  readonly number: number
  /** Adds information about the call. */
  readonly note: (more: Pick<RecordedOpenAiCall, "model" | "request" | "behavior">) => void
  /** Only the first end counts. */
  readonly end: (outcome: Exclude<OpenAiOutcome, "running">, status: number | undefined) => void
}

/** `called`: the complete request was received. `ended`: the call is over. */
type Event = "called" | "ended"

/** All calls so far, with waiters and an optional journal. */
export interface CallLog {
  readonly begin: (opening: Opening) => OpenCall
  readonly calls: () => ReadonlyArray<RecordedOpenAiCall>
  /** Resolves once the event has happened `times` times; rejects if the log closes before. */
  readonly until: (event: Event, endpoint: OpenAiEndpoint, times: number) => Promise<void>
  readonly close: () => void
}

/** Returns the calls of one endpoint, with their type. */
export const callsOf = <E extends OpenAiEndpoint>(
  calls: ReadonlyArray<RecordedOpenAiCall>,
  endpoint: E,
): ReadonlyArray<RecordedOpenAiCall<E>> =>
  calls.filter((call): call is RecordedOpenAiCall<E> => call.endpoint === endpoint)

// A server serves real clients in real time: the wall clock at startup, and monotonic from then on.
const nowMs = (): number => Math.round(performance.timeOrigin + performance.now())

export const makeCallLog = (journalPath: string | undefined): CallLog => {
  const before = journalPath === undefined ? [] : readJournal(journalPath)
  const journal = journalPath === undefined ? undefined : openJournal(journalPath)
  const first = (before.at(-1)?.number ?? 0) + 1
  const calls: Array<RecordedOpenAiCall> = []
  const occasions = makeOccasions()

  const begin = (opening: Opening): OpenCall => {
    const index = calls.length
    let call: RecordedOpenAiCall = { ...opening, number: first + index, outcome: "running", beganAtMs: nowMs() }
    const set = (next: RecordedOpenAiCall): void => {
      const previous = call
      call = next
      calls[index] = next
      journal?.write(next)
      if (next.endpoint === undefined) return
      if (previous.request === undefined && next.request !== undefined) occasions.happened("called", next.endpoint)
      if (previous.outcome !== next.outcome) occasions.happened("ended", next.endpoint)
    }
    set(call)
    return {
      number: call.number,
      note: (more) => set({ ...call, ...more }),
      end: (outcome, status) => {
        if (call.outcome !== "running") return
        set({ ...call, outcome, ...(status === undefined ? {} : { status }), endedAtMs: nowMs() })
      },
    }
  }

  return { begin, calls: () => [...calls], until: occasions.until, close: occasions.close }
}

/** Counts events and wakes waiters. */
const makeOccasions = () => {
  const counts = new Map<string, number>()
  const waiting = new Set<{
    readonly key: string
    readonly times: number
    readonly resolve: () => void
    readonly reject: (reason: Error) => void
  }>()
  const keyOf = (event: Event, endpoint: OpenAiEndpoint): string => `${event} ${endpoint}`
  const countOf = (key: string): number => counts.get(key) ?? 0
  return {
    happened: (event: Event, endpoint: OpenAiEndpoint): void => {
      const key = keyOf(event, endpoint)
      counts.set(key, countOf(key) + 1)
      for (const waiter of waiting) {
        if (countOf(waiter.key) < waiter.times) continue
        waiting.delete(waiter)
        waiter.resolve()
      }
    },
    until: (event: Event, endpoint: OpenAiEndpoint, times: number): Promise<void> =>
      new Promise((resolve, reject) => {
        const key = keyOf(event, endpoint)
        if (countOf(key) >= times) resolve()
        else waiting.add({ key, times, resolve, reject })
      }),
    close: (): void => {
      for (const { key, reject, times } of waiting) {
        reject(new Error(`the stand-in closed while a test waited for "${key}", ${countOf(key)} of ${times} times`))
      }
      waiting.clear()
    },
  }
}
