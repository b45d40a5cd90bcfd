import * as Data from "effect/Data"
import * as Effect from "effect/Effect"

/** The job did not finish within the timeout. It keeps running. */
export class WaitTimeout extends Data.TaggedError("WaitTimeout")<{ readonly afterMs: number }> {}

export interface WaitForJobOptions {
  /** Maximum wait in milliseconds, default 600,000. */
  readonly timeoutMs?: number
}

/** Interval used if the service does not recommend one. */
const POLL_INTERVAL_SECONDS = 2
/** Shortest and longest pause between two polls, whatever the service or a proxy says. */
const SHORTEST_PAUSE_SECONDS = 0.1
const LONGEST_PAUSE_SECONDS = 60

/** A job that has ended. */
export interface FinishedState {
  readonly status: "done" | "failed"
}
const isFinished = <State extends { readonly status: string }>(state: State): state is State & FinishedState =>
  state.status === "done" || state.status === "failed"

/** The response of a polling endpoint. */
export interface PolledState<State> {
  readonly body: State
  readonly headers: { readonly "retry-after"?: number }
}

/**
 * Polls a job until it is done or failed, as often as the service says:
 * `waitForJob(client.audio.pollAudioJob({ params: { id } }))`. Fails with `WaitTimeout` after `timeoutMs`.
 */
export const waitForJob = <State extends { readonly status: string }, E, R>(
  poll: Effect.Effect<PolledState<State>, E, R>,
  { timeoutMs = 600_000 }: WaitForJobOptions = {},
): Effect.Effect<State & FinishedState, E | WaitTimeout, R> =>
  Effect.gen(function* () {
    for (;;) {
      const { body, headers } = yield* poll
      if (isFinished(body)) return body
      const asked = headers["retry-after"] ?? POLL_INTERVAL_SECONDS
      yield* Effect.sleep(Math.min(Math.max(asked, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS) * 1000)
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: timeoutMs,
      orElse: () => Effect.fail(new WaitTimeout({ afterMs: timeoutMs })),
    }),
  )
