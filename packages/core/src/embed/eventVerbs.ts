import * as Context from "effect/Context"
import { requireOneOf, requireOptions } from "../domain/index.ts"
import { JobEvents } from "../engine/index.ts"
import { requireSignal } from "../domain/knownNames.ts"
import type { EmbeddedEngine, Subscription } from "./EmbeddedEngine.ts"
import type { JobEvent } from "../engine/JobEvent.ts"
import { eventTypes, verbOptions } from "./optionNames.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"

/** Maximum number of events buffered for a slow reader. */
const maxKept = 1_000

export const eventVerbs = ({ context, ended: stopped }: EngineRuntime): Pick<EmbeddedEngine, "on" | "events"> => {
  const events = Context.get(context, JobEvents)
  return {
    on: (type, listener) => {
      requireOneOf("event", type, Object.keys(eventTypes))
      if (typeof listener !== "function") throw new TypeError("on() expects a function as its listener")
      // Returned, because an async listener gives a promise, whose rejection the bus reports.
      const end = events.listen((event) =>
        event.type === type ? listener(event as Parameters<typeof listener>[0]) : undefined,
      )
      const subscription: Subscription = Object.assign(() => end(), { [Symbol.dispose]: end })
      return subscription
    },
    events: (options = {}) => {
      requireOptions("events()", options, verbOptions.events)
      requireSignal("signal", options.signal)
      stopped.throwIfAborted()
      const { signal } = options
      return eventStream(events, signal === undefined ? stopped : AbortSignal.any([stopped, signal]))
    },
  }
}

/** Streams events from now on. When it is left or aborted, it ends without an error after the buffered events. */
const eventStream = (events: JobEvents["Service"], signal: AbortSignal): AsyncIterableIterator<JobEvent> => {
  const kept: Array<JobEvent> = []
  let more = Promise.withResolvers<void>()
  const wake = () => {
    more.resolve()
    more = Promise.withResolvers()
  }
  const end = events.listen((event) => {
    if (kept.push(event) > maxKept) kept.shift()
    wake()
  })
  let ended = false
  const finish = () => {
    ended = true
    end()
    signal.removeEventListener("abort", finish)
    wake()
  }
  if (signal.aborted) finish()
  else signal.addEventListener("abort", finish)
  const next = async (): Promise<IteratorResult<JobEvent, undefined>> => {
    const event = kept.shift()
    if (event !== undefined) return { done: false, value: event }
    if (ended) return { done: true, value: undefined }
    await more.promise
    return next()
  }
  const stream: AsyncIterableIterator<JobEvent> = {
    next,
    return: () => {
      kept.length = 0
      finish()
      return Promise.resolve({ done: true, value: undefined })
    },
    [Symbol.asyncIterator]: () => stream,
  }
  return stream
}
