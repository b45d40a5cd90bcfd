import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { JobId } from "../domain/Ids.ts"
import type { Job } from "../domain/index.ts"
import { JobDirectory } from "../ports/index.ts"
import type { JobEvent, JobRef } from "./JobEvent.ts"

/** Calls a function of the embedding program. An exception, or the rejection of a promise it returns, goes to `failed`. */
export const callSafely = <A>(call: (value: A) => unknown, value: A, failed: (error: unknown) => void): void => {
  try {
    const returned = call(value)
    // Most functions return nothing, and there are many events.
    if (returned !== undefined) Promise.resolve(returned).catch(failed)
  } catch (error) {
    failed(error)
  }
}

/** Maximum number of events kept for a slow reader of the stream. */
const maxKept = 1_000

/** Hints between parts of the engine in this process. They are never required: each receiver reads the store as well. */
export type JobSignal =
  /** The job has finished. Carries no details: another process did it, or a verb that returns ids alone. */
  | { readonly type: "finished"; readonly jobId: JobId }
  /** An attempt of this process has emitted chunks, which are stored. */
  | { readonly type: "chunks"; readonly jobId: JobId }
  /** The job was canceled: an attempt at it in this process is wasted. */
  | { readonly type: "canceled"; readonly jobId: JobId }
  /** An operator changed the switchboard through this process. */
  | { readonly type: "board_changed" }

export type Heard = JobEvent | JobSignal

/** Jobs, changes of the switchboard, or cancellations alone. */
type Topic = "job" | "board" | "canceled"

export const refOf = ({ id, kind, mode, projectId }: Job): JobRef => ({ jobId: id, kind, mode, projectId })

/** Returns whether the event is the end of a job. */
export const isEnd = ({ type }: Heard): boolean => type === "completed" || type === "failed" || type === "finished"

/**
 * Carries the events of jobs within this process, as they happen. Best effort: events of other processes, events without a
 * listener, and those of a crash are lost. The store has the truth.
 */
export class JobEvents extends Context.Service<
  JobEvents,
  {
    /** Calls the listeners. Never waits. An exception in a listener is logged, and affects neither the job nor other listeners. */
    readonly emit: (event: Heard) => void
    /**
     * Listens to the events of all jobs until the returned function is called. Listeners run while a job is being worked on:
     * they must be quick. Adding a listener twice calls it twice.
     */
    readonly listen: (listener: (event: JobEvent) => void) => () => void
    /** Listens to the events and signals of a topic, until the returned function is called. Listeners must be quick, as above. */
    readonly listenTo: (topic: Topic, listener: (event: Heard) => void) => () => void
    /** The events of all jobs from now on. A slow reader loses the oldest events beyond 1,000. */
    readonly stream: Stream.Stream<JobEvent>
  }
>()("@kiln/core/engine/JobEvents") {
  static readonly layer: Layer.Layer<JobEvents> = Layer.effect(
    JobEvents,
    Effect.gen(function* () {
      const context = yield* Effect.context()
      const report = (error: unknown) =>
        void Effect.runForkWith(context)(Effect.logError("a listener to job events failed", error))
      const listeners = new Map<Topic | "jobs", Set<(event: Heard) => void>>()
      const add = (topic: Topic | "jobs", listener: (event: Heard) => void) => {
        const entry = (event: Heard) => listener(event)
        const others = listeners.get(topic) ?? new Set()
        listeners.set(topic, others.add(entry))
        return () => {
          others.delete(entry)
          if (others.size === 0 && listeners.get(topic) === others) listeners.delete(topic)
        }
      }
      const tell = (topic: Topic | "jobs", event: Heard) => {
        const heardBy = listeners.get(topic)
        if (heardBy === undefined) return
        for (const listener of heardBy) callSafely(listener, event, report)
      }
      const listen = (listener: (event: JobEvent) => void) => add("jobs", listener as (event: Heard) => void)
      return JobEvents.of({
        emit: (event) => {
          tell("jobId" in event ? "job" : "board", event)
          if (event.type === "canceled") tell("canceled", event)
          if (!isSignal(event)) tell("jobs", event)
        },
        listen,
        listenTo: add,
        stream: Stream.callback<JobEvent>(
          (queue) =>
            Effect.acquireRelease(
              Effect.sync(() => listen((event) => Queue.offerUnsafe(queue, event))),
              (end) => Effect.sync(end),
            ),
          { bufferSize: maxKept, strategy: "sliding" },
        ),
      })
    }),
  )
}

const isSignal = (event: Heard): event is JobSignal =>
  event.type === "finished" || event.type === "chunks" || event.type === "canceled" || event.type === "board_changed"

/** Emits the end of jobs that failed through a verb that returns only their ids. */
export const emitFailed = Effect.fnUntraced(function* (jobIds: ReadonlyArray<JobId>) {
  if (jobIds.length === 0) return
  const events = yield* JobEvents
  const directory = yield* JobDirectory
  for (const jobId of jobIds) events.emit({ type: "finished", jobId })
  // Best effort: the details come from the rows.
  const jobs = yield* Effect.orElseSucceed(directory.readJobs(jobIds), () => [])
  for (const job of jobs)
    if (job !== undefined && job.errorCode !== null)
      events.emit({ type: "failed", ...refOf(job), errorCode: job.errorCode })
})
