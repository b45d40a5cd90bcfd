import {
  type ProviderAnswers,
  providerBroken,
  type ProviderCall,
  type ProviderError,
  type ProviderName,
  providerNames,
  providerRefused,
  type ProviderRequests,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/ports"
import { Effect } from "effect"
import { answer, answerLate, type Behavior, hang, malformed } from "./Behavior.ts"
import { defaultAnswers } from "./defaultAnswers.ts"
import type { FakeProviders, RecordedCall } from "./FakeProviders.ts"

/**
 * How a provider fails. It may go better later: `provider_unavailable`, `result_invalid`. It never will:
 * `content_rejected`, `provider_rejected`. Its operator has to mend it, and it is paused: `configuration`, `quota`.
 */
export type FakeFailure =
  | "provider_unavailable"
  | "result_invalid"
  | "content_rejected"
  | "provider_rejected"
  | "configuration"
  | "quota"

/** One call that reached a fake. */
export interface FakeCall<N extends ProviderName> extends ProviderCall {
  /** Of audio, what is known about it, without its bytes. */
  readonly request: AskedFor<ProviderRequests[N]>
  /** How it stands now. */
  readonly outcome: RecordedCall["outcome"]
}

type AskedFor<Request> = {
  readonly [Field in keyof Request]: Field extends "audio" ? Omit<Request[Field], "content"> : Request[Field]
}

/** What a fake is told to do. */
export interface FakeVerbs<N extends ProviderName, Next> {
  /** Answers, with the default answer where nothing else is said. */
  readonly answer: (fields?: Partial<ProviderAnswers[N]>) => Next
  /** Answers after so many milliseconds of the engine's time. */
  readonly answerLate: (delayMs: number, fields?: Partial<ProviderAnswers[N]>) => Next
  /** Default: `provider_unavailable`. `retryAfterMs` is how long it asks to be left alone. */
  readonly fail: (how?: FakeFailure, options?: { readonly retryAfterMs?: number }) => Next
  /** Never answers. */
  readonly hang: () => Next
  /** Answers something that is no answer, `undefined` by default: the attempt fails with `result_invalid`. */
  readonly malformed: (value?: unknown) => Next
}

/** A fake. Its verbs speak of its next calls, one after the other, and can be chained; those of `always` of all the others. */
export interface FakeProvider<N extends ProviderName> extends FakeVerbs<N, FakeProvider<N>> {
  readonly always: FakeVerbs<N, void>
  /** The calls so far, in the order in which they began. */
  readonly calls: ReadonlyArray<FakeCall<N>>
  /** Resolves when it has been called that often, 1 by default: the way to wait for a call that hangs. */
  readonly called: (times?: number) => Promise<void>
}

/** Fakes under the names of their ports. */
export type ProgrammableProviders = { readonly [N in ProviderName]: FakeProvider<N> }

/** Fakes for code without Effect: `createEngine({ providers: { sandbox: fakes.providers } })`, and `programmable(fakes).speech.fail()`. */
export const programmable = (fakes: FakeProviders): ProgrammableProviders => {
  const made = Object.fromEntries(providerNames.map((name) => [name, programmableProvider(fakes, name)]))
  return made as object as ProgrammableProviders
}

const programmableProvider = <N extends ProviderName>(fakes: FakeProviders, name: N): FakeProvider<N> => {
  const provider: FakeProvider<N> = {
    ...verbs(name, (behavior): FakeProvider<N> => {
      fakes.script(name, behavior)
      return provider
    }),
    always: verbs(name, (behavior) => fakes.usually(name, behavior)),
    get calls() {
      return fakes.callsOf(name).map(({ call, outcome, request }) => ({ ...call, request: askedFor(request), outcome }))
    },
    called: (times = 1) => Effect.runPromise(fakes.untilCalled(name, times)),
  }
  return provider
}

const verbs = <N extends ProviderName, Next>(
  name: N,
  does: (behavior: Behavior<ProviderAnswers[N]>) => Next,
): FakeVerbs<N, Next> => {
  const answerOf = (fields: Partial<ProviderAnswers[N]> = {}): ProviderAnswers[N] => ({
    ...defaultAnswers[name],
    ...fields,
  })
  return {
    answer: (fields) => does(answer(answerOf(fields))),
    answerLate: (delayMs, fields) => does(answerLate(delayMs, answerOf(fields))),
    fail: (how = "provider_unavailable", { retryAfterMs } = {}) =>
      does({ _tag: "Fail", failure: failures[how](retryAfterMs) }),
    hang: () => does(hang),
    malformed: (value) => does(malformed(value)),
  }
}

const detail = "the test made it fail"

const failures: { readonly [How in FakeFailure]: (retryAfterMs: number | undefined) => ProviderError } = {
  provider_unavailable: (retryAfterMs) => providerUnavailable(detail, retryAfterMs),
  result_invalid: () => resultInvalid(detail),
  content_rejected: () => providerRefused("content", detail),
  provider_rejected: () => providerRefused("input", detail),
  configuration: (retryAfterMs) => providerBroken("configuration", detail, retryAfterMs),
  quota: (retryAfterMs) => providerBroken("quota", detail, retryAfterMs),
}

const askedFor = <N extends ProviderName>(request: ProviderRequests[N]): AskedFor<ProviderRequests[N]> => {
  if (!("audio" in request)) return request as AskedFor<ProviderRequests[N]>
  const { content: _, ...audio } = request.audio
  return { ...request, audio } as object as AskedFor<ProviderRequests[N]>
}
