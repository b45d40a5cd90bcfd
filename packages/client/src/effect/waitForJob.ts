import { Data, Effect } from "effect"
import type { AudioJobState, ImageJobState } from "../api/JobBodies.ts"
import { KilnClient } from "./KilnClient.ts"

/** The job was not finished in the time it was waited for. It goes on. */
export class WaitTimeout extends Data.TaggedError("WaitTimeout")<{ readonly afterMs: number }> {}

export interface WaitOptions {
  /** How long to wait at most. Default 600,000 ms. */
  readonly timeoutMs?: number
}

/** What the service recommends, where it does not say. */
const POLL_INTERVAL_SECONDS = 2
/** Shortest and longest pause between two polls, whatever the service or a proxy says. */
const SHORTEST_PAUSE_SECONDS = 0.1
const LONGEST_PAUSE_SECONDS = 60

/** An audio job (`transcription`, `speech_synthesis`, `voice_turn`) once it is done or failed, asked for as often as the service says. */
export const waitForAudioJob = (jobId: string, options: WaitOptions = {}) =>
  KilnClient.use((client) => until(client.audio.pollAudioJob({ params: { id: jobId } }), isFinishedAudio, options))

/** The same for an image job. */
export const waitForImageJob = (jobId: string, options: WaitOptions = {}) =>
  KilnClient.use((client) => until(client.images.pollImageJob({ params: { id: jobId } }), isFinishedImage, options))

interface Final {
  readonly status: "done" | "failed"
}
const isFinal = ({ status }: { readonly status: string }): boolean => status === "done" || status === "failed"
const isFinishedAudio = (state: typeof AudioJobState.Type): state is typeof AudioJobState.Type & Final => isFinal(state)
const isFinishedImage = (state: typeof ImageJobState.Type): state is typeof ImageJobState.Type & Final => isFinal(state)

interface Polled<State> {
  readonly body: State
  readonly headers: { readonly "retry-after"?: number }
}

const until = <State, Finished extends State, E, R>(
  poll: Effect.Effect<Polled<State>, E, R>,
  isFinished: (state: State) => state is Finished,
  { timeoutMs = 600_000 }: WaitOptions,
): Effect.Effect<Finished, E | WaitTimeout, R> =>
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
