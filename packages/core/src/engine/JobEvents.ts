import { Context, Effect, Layer, Queue, Stream } from "effect"
import type { Job } from "../domain/index.ts"
import { callOthers } from "./callOthers.ts"
import type { JobHappening, JobRef } from "./JobHappening.ts"

/** Happenings that are kept for a slow reader of the stream. */
const maxKept = 1_000

export const refOf = ({ id, kind, mode, projectId }: Job): JobRef => ({ jobId: id, kind, mode, projectId })

/**
 * Tells listeners in this process what happens to jobs in this process, as it happens. A convenience: what happens while
 * nobody listens, in another process, or as this one dies, is told to nobody. The store knows.
 */
export class JobEvents extends Context.Service<
  JobEvents,
  {
    /** Never waits. What a listener throws is logged, and harms neither the job nor other listeners. */
    readonly emit: (happening: JobHappening) => void
    /** Begins to listen; the result ends it. A listener is called while the job is being worked on: it must be quick. */
    readonly listen: (listener: (happening: JobHappening) => void) => () => void
    /** The same as a stream. Who is slow loses the oldest of more than 1,000. */
    readonly stream: Stream.Stream<JobHappening>
  }
>()("@kiln/core/engine/JobEvents") {
  static readonly layer: Layer.Layer<JobEvents> = Layer.effect(
    JobEvents,
    Effect.gen(function* () {
      const context = yield* Effect.context()
      const report = (error: unknown) =>
        void Effect.runForkWith(context)(Effect.logError("a listener to events of jobs failed", error))
      const listeners = new Set<(happening: JobHappening) => void>()
      const listen = (listener: (happening: JobHappening) => void) => {
        // A function of its own, so that one that listens twice is heard twice.
        const entry = (happening: JobHappening) => listener(happening)
        listeners.add(entry)
        return () => void listeners.delete(entry)
      }
      return JobEvents.of({
        emit: (happening) => {
          for (const listener of listeners) callOthers(() => listener(happening), report)
        },
        listen,
        stream: Stream.callback<JobHappening>(
          (queue) =>
            Effect.acquireRelease(
              Effect.sync(() => listen((happening) => Queue.offerUnsafe(queue, happening))),
              (end) => Effect.sync(end),
            ),
          { bufferSize: maxKept, strategy: "sliding" },
        ),
      })
    }),
  )
}
