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
 * Failure of a provider. Retryable: `provider_unavailable`, `result_invalid`. Permanent for the job: `content_rejected`,
 * `provider_rejected`. Must be fixed by the operator, and pauses the provider: `configuration`, `quota`.
 */
export type FakeFailure =
  | "provider_unavailable"
  | "result_invalid"
  | "content_rejected"
  | "provider_rejected"
  | "configuration"
  | "quota"

/** One call of a fake. */
export interface FakeCall<N extends ProviderName> extends ProviderCall {
  /** The request; of audio, the description without the bytes. */
  readonly request: AskedFor<ProviderRequests[N]>
  /** The current state of the call. */
  readonly outcome: RecordedCall["outcome"]
}

type AskedFor<Request> = {
  readonly [Field in keyof Request]: Field extends "audio" ? Omit<Request[Field], "content"> : Request[Field]
}

/** Sets the behavior of a fake. */
export interface FakeVerbs<N extends ProviderName, Next> {
  /** Answers; unspecified fields have default values. */
  readonly answer: (fields?: Partial<ProviderAnswers[N]>) => Next
  /** Answers after `delayMs` milliseconds of the engine's time. */
  readonly answerLate: (delayMs: number, fields?: Partial<ProviderAnswers[N]>) => Next
  /** Fails. Default: `provider_unavailable`. `retryAfterMs` is the requested wait in milliseconds. */
  readonly fail: (how?: FakeFailure, options?: { readonly retryAfterMs?: number }) => Next
  /** Never answers. */
  readonly hang: () => Next
  /** Returns an invalid answer, `undefined` by default: the attempt fails with `result_invalid`. */
  readonly malformed: (value?: unknown) => Next
}

/** A fake. Its methods queue behaviors for its next calls and can be chained; methods of `always` apply to all other calls. */
export interface FakeProvider<N extends ProviderName> extends FakeVerbs<N, FakeProvider<N>> {
  readonly always: FakeVerbs<N, void>
  /** The calls so far, in order of their start. */
  readonly calls: ReadonlyArray<FakeCall<N>>
  /** Resolves when it has been called `times` times (default 1). Use it to wait for a call that hangs. */
  readonly called: (times?: number) => Promise<void>
}

/** Fakes by the names of their ports. */
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
