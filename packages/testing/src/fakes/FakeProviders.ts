import {
  type AnswerOf,
  type AnyProvider,
  builtInPorts,
  type EffectProvider,
  effectProvider,
  type NameOf,
  type ProviderCall,
  type ProviderName,
  type ProviderPort,
  type ProviderRequest,
} from "@kiln/core/providers"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import { answer, type Behavior, perform } from "./Behavior.ts"
import { makeCallWatch } from "./CallWatch.ts"
import { defaultAnswers, enlarged } from "./defaultAnswers.ts"

/** The names of the built-in ports and of these. */
export type FakeName<Port extends ProviderPort = never> = ProviderName | NameOf<Port>
/** The port of a name. */
export type FakePort<Port extends ProviderPort, Name> = Name extends ProviderName
  ? Name
  : Extract<Port, { readonly name: Name }>
type Answer<Port extends ProviderPort, Name> = AnswerOf<FakePort<Port, Name>>

/** One call that reached a fake. `outcome` is its present state. */
export interface RecordedCall<Name extends string = ProviderName, Port extends ProviderPort = never> {
  readonly provider: Name
  readonly request: ProviderRequest<FakePort<Port, Name>>
  readonly call: ProviderCall
  readonly outcome: "running" | "answered" | "failed" | "interrupted"
  /** The number of pieces that a `trickle` has delivered. */
  readonly pieces: number
}

/**
 * Providers that do what a test tells them and record their calls. Pass them to the engine as
 * `Layer.succeed(Providers, { sandbox: fake.providers, live: other.providers })`.
 */
export interface FakeProviders<Port extends ProviderPort = never> {
  readonly providers: { readonly [Name in Exclude<ProviderName, "voiceTurn">]: EffectProvider<Name> } & {
    readonly [Each in Port as NameOf<Each>]: EffectProvider<Each>
  }
  /** Apart from the others, because a voice turn prefers it to the three steps if it is among them. */
  readonly voiceTurn: EffectProvider<"voiceTurn">
  /** Sets the behavior of a provider's next calls, one each, in this order. Later calls behave as usual. */
  readonly script: <Name extends FakeName<Port>>(
    provider: Name,
    ...behaviors: ReadonlyArray<Behavior<Answer<Port, Name>>>
  ) => void
  /** Sets the behavior of calls that are not scripted. By default they answer with `defaultAnswers`, or the port's `example`. */
  readonly usually: <Name extends FakeName<Port>>(provider: Name, behavior: Behavior<Answer<Port, Name>>) => void
  /** All calls so far, in the order in which they began. */
  readonly calls: () => ReadonlyArray<RecordedCall<FakeName<Port>, Port>>
  /** The calls of one provider. */
  readonly callsOf: <Name extends FakeName<Port>>(provider: Name) => ReadonlyArray<RecordedCall<Name, Port>>
  /** Waits until a provider has been called `times` times, 1 by default. Use it to wait for a call that hangs. */
  readonly untilCalled: (provider: FakeName<Port>, times?: number) => Effect.Effect<void>
  /** Waits until some call waits for time to pass: it hangs, trickles or answers late. The test can then move its clock. */
  readonly untilWaiting: Effect.Effect<void>
}

type AnyCall = Types.Mutable<RecordedCall<string, ProviderPort>>

/** A fake of one port. */
interface Fake {
  usual: Behavior<unknown>
  readonly scripted: Array<Behavior<unknown>>
  readonly calls: Array<AnyCall>
  readonly provider: AnyProvider
}

/** Creates fakes of the built-in ports, and of any others. */
export const makeFakeProviders = <Port extends ProviderPort = never>(
  ports: ReadonlyArray<Port> = [],
): FakeProviders<Port> => {
  const all: Array<AnyCall> = []
  const watch = makeCallWatch()
  const fakes = new Map<string, Fake>()

  const newFake = (port: ProviderPort): Fake => {
    const { name } = port
    const fake: Fake = {
      usual: answer(Object.hasOwn(defaultAnswers, name) ? defaultAnswers[name as ProviderName] : port.example),
      scripted: [],
      calls: [],
      provider: effectProvider(port, (request: object, call) =>
        Effect.suspend(() => {
          const behavior = fake.scripted.shift() ?? fake.usual
          const entry: AnyCall = { provider: name, request, call, outcome: "running", pieces: 0 }
          fake.calls.push(entry)
          all.push(entry)
          watch.notify()
          const performed = perform(behavior, {
            enlarged: enlarge(name),
            pieceCame: () => void entry.pieces++,
          })
          return readAudio(request).pipe(
            Effect.andThen(watch.inTime(behavior, performed)),
            Effect.onExit((exit) =>
              Effect.sync(() => {
                entry.outcome = Exit.isSuccess(exit) ? "answered" : Exit.hasInterrupts(exit) ? "interrupted" : "failed"
              }),
            ),
          )
        }),
      ),
    }
    return fake
  }
  for (const port of [...builtInPorts, ...ports]) fakes.set(port.name, newFake(port))

  const fakeOf = (name: string): Fake => {
    const fake = fakes.get(name)
    if (fake === undefined)
      throw new TypeError(`no fake provider is named "${name}"; known: ${[...fakes.keys()].join(", ")}`)
    return fake
  }
  const { voiceTurn, ...providers } = Object.fromEntries(
    [...fakes].map(([name, { provider }]) => [name, provider]),
  ) as object as FakeProviders<Port>["providers"] & Pick<FakeProviders, "voiceTurn">
  return {
    providers: providers as object as FakeProviders<Port>["providers"],
    voiceTurn,
    script: (name, ...behaviors) => {
      fakeOf(name).scripted.push(...behaviors)
    },
    usually: (name, behavior) => {
      fakeOf(name).usual = behavior
    },
    calls: () => [...all] as object as ReadonlyArray<RecordedCall<FakeName<Port>, Port>>,
    callsOf: <Name extends FakeName<Port>>(name: Name) =>
      [...fakeOf(name).calls] as object as ReadonlyArray<RecordedCall<Name, Port>>,
    untilCalled: (name, times = 1) => watch.until(() => fakeOf(name).calls.length >= times),
    untilWaiting: watch.untilWaiting,
  }
}

/** Reads audio to its end, as a real provider does, so that a missing or damaged blob fails the call. */
const readAudio = (request: object) =>
  "audio" in request
    ? Stream.runDrain((request.audio as ProviderRequest<"transcription">["audio"]).content)
    : Effect.void

const enlarge =
  (name: string) =>
  (bytes: number): unknown => {
    const make = Object.hasOwn(enlarged, name) ? enlarged[name as ProviderName] : undefined
    if (make === undefined)
      throw new TypeError(`the port ${name} has no default oversized answer; pass one to malformed(…)`)
    return make(bytes)
  }
