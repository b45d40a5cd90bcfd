import type {
  ProviderAnswers,
  ProviderCall,
  ProviderError,
  ProviderName,
  ProviderRequests,
  ProviderSet,
  VoiceTurnProvider,
} from "@kiln/core/ports"
import { Effect, Exit, Stream, type Types } from "effect"
import { answer, type Behavior, perform } from "./Behavior.ts"
import { makeCallWatch } from "./CallWatch.ts"
import { defaultAnswers, enlarged } from "./defaultAnswers.ts"

/** One call of a fake. `outcome` is its current state. */
export interface RecordedCall<N extends ProviderName = ProviderName> {
  readonly provider: N
  readonly request: ProviderRequests[N]
  readonly call: ProviderCall
  readonly outcome: "running" | "answered" | "failed" | "interrupted"
  /** Of a `trickle`: the number of pieces so far. */
  readonly pieces: number
}

/**
 * Providers that behave as the test says and record their calls. Pass them to the engine as
 * `Layer.succeed(Providers, { sandbox: fake.providers, live: other.providers })`.
 */
export interface FakeProviders {
  readonly providers: { readonly [N in Exclude<ProviderName, "voiceTurn">]: NonNullable<ProviderSet[N]> }
  /** Separate from the others, because a voice turn prefers it to the three steps whenever it is present. */
  readonly voiceTurn: VoiceTurnProvider
  /** Queues behaviors for the next calls of a provider, one per call; later calls behave as usual. */
  readonly script: <N extends ProviderName>(
    provider: N,
    ...behaviors: ReadonlyArray<Behavior<ProviderAnswers[N]>>
  ) => void
  /** Sets the behavior of a provider when nothing is scripted; initially it answers with `defaultAnswers`. */
  readonly usually: <N extends ProviderName>(provider: N, behavior: Behavior<ProviderAnswers[N]>) => void
  /** Returns all calls so far, in order of their start. */
  readonly calls: () => ReadonlyArray<RecordedCall>
  /** Returns the calls of one provider. */
  readonly callsOf: <N extends ProviderName>(provider: N) => ReadonlyArray<RecordedCall<N>>
  /** Waits until a provider has been called `times` times (default 1). Use it to wait for a call that hangs. */
  readonly untilCalled: (provider: ProviderName, times?: number) => Effect.Effect<void>
  /** Waits until a call waits for time to pass: it hangs, trickles or is late. The test may advance the clock then. */
  readonly untilWaiting: Effect.Effect<void>
}

interface Fake<N extends ProviderName> {
  usual: Behavior<ProviderAnswers[N]>
  readonly scripted: Array<Behavior<ProviderAnswers[N]>>
  readonly calls: Array<RecordedCall<N>>
}
type Fakes = { readonly [N in ProviderName]: Fake<N> }

const newFake = <N extends ProviderName>(provider: N): Fake<N> => ({
  usual: answer(defaultAnswers[provider]),
  scripted: [],
  calls: [],
})

export const makeFakeProviders = (): FakeProviders => {
  const fakes: Fakes = {
    transcription: newFake("transcription"),
    speech: newFake("speech"),
    reply: newFake("reply"),
    image: newFake("image"),
    voiceTurn: newFake("voiceTurn"),
  }
  const all: Array<RecordedCall> = []
  const watch = makeCallWatch()

  const perCall = <N extends ProviderName, E = never>(
    provider: N,
    request: ProviderRequests[N],
    call: ProviderCall,
    first: Effect.Effect<void, E> = Effect.void,
  ): Effect.Effect<ProviderAnswers[N], ProviderError | E> =>
    Effect.suspend(() => {
      const fake: Fake<N> = fakes[provider]
      const behavior = fake.scripted.shift() ?? fake.usual
      const entry: Types.Mutable<RecordedCall<N>> = { provider, request, call, outcome: "running", pieces: 0 }
      fake.calls.push(entry)
      all.push(entry)
      watch.notify()
      const performed = perform(behavior, { enlarged: enlarged[provider], pieceCame: () => void entry.pieces++ })
      return first.pipe(
        Effect.andThen(watch.inTime(behavior, performed)),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            entry.outcome = Exit.isSuccess(exit) ? "answered" : Exit.hasInterrupts(exit) ? "interrupted" : "failed"
          }),
        ),
      )
    })

  return {
    providers: {
      // Reads all of the audio, like a real provider, so that a missing or damaged blob is noticed.
      transcription: {
        transcribe: (request, call) => perCall("transcription", request, call, Stream.runDrain(request.audio.content)),
      },
      speech: { speak: (request, call) => perCall("speech", request, call) },
      reply: { reply: (request, call) => perCall("reply", request, call) },
      image: { generate: (request, call) => perCall("image", request, call) },
    },
    voiceTurn: {
      turn: (request, call) => perCall("voiceTurn", request, call, Stream.runDrain(request.audio.content)),
    },
    script: (provider, ...behaviors) => {
      fakes[provider].scripted.push(...behaviors)
    },
    usually: (provider, behavior) => {
      const fake: Fake<typeof provider> = fakes[provider]
      fake.usual = behavior
    },
    calls: () => [...all],
    callsOf: (provider) => [...fakes[provider].calls],
    untilCalled: (provider, times = 1) => watch.until(() => fakes[provider].calls.length >= times),
    untilWaiting: watch.untilWaiting,
  }
}
