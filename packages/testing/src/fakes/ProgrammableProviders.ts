import { requireOneOf } from "@kiln/core/domain"
import {
  type AnswerOf,
  type NameOf,
  providerBroken,
  type ProviderCall,
  type ProviderError,
  providerNames,
  type ProviderPort,
  type ProviderRef,
  providerRefused,
  type ProviderRequest,
  providerUnavailable,
  resultInvalid,
} from "@kiln/core/providers"
import * as Effect from "effect/Effect"
import { answer, answerLate, type Behavior, hang, malformed } from "./Behavior.ts"
import { defaultAnswers } from "./defaultAnswers.ts"
import type { FakeProviders } from "./FakeProviders.ts"

/**
 * A failure of a provider. Retried: `provider_unavailable`, `result_invalid`. Not retried: `content_rejected`,
 * `provider_rejected`. Paused until the operator fixes it: `configuration`, `quota`.
 */
export type FakeFailure =
  | "provider_unavailable"
  | "result_invalid"
  | "content_rejected"
  | "provider_rejected"
  | "configuration"
  | "quota"

/** One call that reached a fake. */
export interface FakeCall<Ref extends ProviderRef> extends ProviderCall {
  /** Audio is listed without its content. */
  readonly request: AskedFor<ProviderRequest<Ref>>
  /** The present state of the call. */
  readonly outcome: "running" | "answered" | "failed" | "interrupted"
}

type AskedFor<Request> = {
  readonly [Field in keyof Request]: Field extends "audio" ? Omit<Request[Field], "content"> : Request[Field]
}

/** Methods that set the behavior of a fake. */
export interface FakeVerbs<Ref extends ProviderRef, Next> {
  /** Answers with the default answer and these fields. */
  readonly answer: (fields?: Partial<AnswerOf<Ref>>) => Next
  /** Answers after this many milliseconds of the engine's time. */
  readonly answerLate: (delayMs: number, fields?: Partial<AnswerOf<Ref>>) => Next
  /** Fails, by default with `provider_unavailable`. `retryAfterMs` is the delay the provider asks for. */
  readonly fail: (how?: FakeFailure, options?: { readonly retryAfterMs?: number }) => Next
  /** Never answers. */
  readonly hang: () => Next
  /** Answers with an invalid value, `undefined` by default. The attempt fails with `result_invalid`. */
  readonly malformed: (value?: unknown) => Next
}

/** A fake. Its own verbs set the next calls, one each, and can be chained. The verbs of `always` set all other calls. */
export interface FakeProvider<Ref extends ProviderRef> extends FakeVerbs<Ref, FakeProvider<Ref>> {
  readonly always: FakeVerbs<Ref, void>
  /** The calls so far, in the order in which they began. */
  readonly calls: ReadonlyArray<FakeCall<Ref>>
  /** Resolves when the fake has been called `times` times, 1 by default. Use it to wait for a call that hangs. */
  readonly called: (times?: number) => Promise<void>
}

/** Fakes under the names of their ports. */
export type ProgrammableProviders<Port extends ProviderPort = never> = {
  readonly [Ref in (typeof providerNames)[number] | Port as NameOf<Ref>]: FakeProvider<Ref>
}

/** Wraps fakes for tests without Effect: `createEngine({ providers: { sandbox: fakes.providers } })`, and `programmable(fakes).speech.fail()`. */
export const programmable = <Port extends ProviderPort = never>(
  fakes: FakeProviders<Port>,
  ports: ReadonlyArray<Port> = [],
): ProgrammableProviders<Port> => {
  const names: ReadonlyArray<string> = [...providerNames, ...ports.map(({ name }) => name)]
  const examples = new Map<string, unknown>([
    ...ports.map(({ example, name }) => [name, example] as const),
    ...Object.entries(defaultAnswers),
  ])
  const made = names.map((name) => [name, programmableProvider(fakes as object as AnyFakes, name, examples.get(name))])
  return Object.fromEntries(made) as ProgrammableProviders<Port>
}

/** Fakes whatever their ports. */
type AnyFakes = FakeProviders<ProviderPort<string, object>>
type AnyFake = FakeProvider<ProviderPort<string, object>>

const programmableProvider = (fakes: AnyFakes, name: string, example: unknown): AnyFake => {
  const provider: AnyFake = {
    ...verbs(example, (behavior): AnyFake => {
      fakes.script(name, behavior)
      return provider
    }),
    always: verbs(example, (behavior) => fakes.usually(name, behavior)),
    get calls() {
      return fakes
        .callsOf(name)
        .map(({ call, outcome, request }) => ({ ...call, request: withoutContent(request), outcome }))
    },
    called: (times = 1) => Effect.runPromise(fakes.untilCalled(name, times)),
  }
  return provider
}

const verbs = <Next>(
  example: unknown,
  does: (behavior: Behavior<unknown>) => Next,
): FakeVerbs<ProviderPort<string, object>, Next> => {
  const isFields = typeof example === "object" && example !== null && !Array.isArray(example)
  const answerOf = (fields?: object): unknown =>
    isFields || example === undefined ? { ...example, ...fields } : (fields ?? example)
  return {
    answer: (fields) => does(answer(answerOf(fields))),
    answerLate: (delayMs, fields) => does(answerLate(delayMs, answerOf(fields))),
    fail: (how = "provider_unavailable", { retryAfterMs } = {}) => {
      requireOneOf("failure", how, Object.keys(failures))
      return does({ _tag: "Fail", failure: failures[how](retryAfterMs) })
    },
    hang: () => does(hang),
    malformed: (value) => does(malformed(value)),
  }
}

const detail = "failed by the test"

const failures: { readonly [How in FakeFailure]: (retryAfterMs: number | undefined) => ProviderError } = {
  provider_unavailable: (retryAfterMs) => providerUnavailable(detail, retryAfterMs),
  result_invalid: () => resultInvalid(detail),
  content_rejected: () => providerRefused("content", detail),
  provider_rejected: () => providerRefused("input", detail),
  configuration: (retryAfterMs) => providerBroken("configuration", detail, retryAfterMs),
  quota: (retryAfterMs) => providerBroken("quota", detail, retryAfterMs),
}

const withoutContent = (request: object): object => {
  if (!("audio" in request)) return request
  const { content: _, ...audio } = request.audio as ProviderRequest<"transcription">["audio"]
  return { ...request, audio }
}
