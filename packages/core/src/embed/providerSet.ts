import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isError, isTaggedError } from "../domain/index.ts"
import { givenField } from "../domain/givenValues.ts"
import {
  type AnyProvider,
  type AudioInput,
  builtInPorts,
  providerBroken,
  type ProviderCall,
  type ProviderError,
  type ProviderName,
  type ProviderPort,
  type ProviderSet,
  providerUnavailable,
} from "../providers/index.ts"
import { markAsOwn } from "../providers/sandboxLimits.ts"
import type { AnyProvider as GivenProvider, AsyncCall } from "./AsyncProviders.ts"
import { concat } from "./fileBodies.ts"

type Providers = { readonly [Name in ProviderName]?: GivenProvider<Name> | undefined }

/**
 * Turns providers that return promises into providers that return Effects, and keeps the others as they are. The error that a
 * provider throws decides what happens to the job: throw `providerRefused(…)`, `providerBroken(…)`, `resultInvalid(…)` or
 * `providerUnavailable(…)`. Any other error counts as unavailable and is retried. The log gets only its class and frames,
 * because its message may quote a request.
 */
export const providerSet = (
  providers: Providers | undefined,
  ports: ReadonlyArray<ProviderPort> = builtInPorts,
): ProviderSet =>
  Object.fromEntries(
    ports.flatMap(({ name }) => {
      const provider = providers === undefined ? undefined : givenField(providers, name)
      if (provider === undefined) return []
      if (typeof provider !== "function")
        throw new TypeError(`the provider of ${name} must be a function (request, call)`)
      return [
        [
          name,
          "~provider" in provider
            ? (provider as object as AnyProvider)
            : convertedOnce(name, provider as AsyncFunction),
        ] as const,
      ]
    }),
  )

type AsyncFunction = (request: object, call: AsyncCall) => Promise<unknown>

/** A provider that serves both modes stays one provider. */
const converted = new WeakMap<AsyncFunction, Map<string, AnyProvider>>()

const convertedOnce = (name: string, provider: AsyncFunction): AnyProvider => {
  const byPort = converted.get(provider) ?? new Map<string, AnyProvider>()
  converted.set(provider, byPort)
  const known = byPort.get(name) ?? markAsOwn(fromPromise(name, provider))
  byPort.set(name, known)
  return known
}

/** Audio is read before the provider is called, so that a damaged file does not count as its failure. */
const fromPromise =
  (name: string, provider: AsyncFunction): AnyProvider =>
  (request: object, call: ProviderCall) => {
    if (!("audio" in request)) return awaiting(name, provider, request, call)
    const { content, ...details } = request.audio as AudioInput
    return Effect.flatMap(wholeAudio(content, details.bytes), (data) =>
      awaiting(name, provider, { ...request, audio: { ...details, data } }, call),
    )
  }

const awaiting = (
  name: string,
  provider: AsyncFunction,
  request: object,
  call: ProviderCall,
): Effect.Effect<unknown, ProviderError> =>
  Effect.tryPromise({
    // Async, so that an error thrown before there is a promise rejects as well.
    try: async (signal) => provider(request, { ...call, signal }),
    catch: (thrown) =>
      isTaggedError<ProviderError>(thrown, "ProviderFailure", "ProviderBroken") ? thrown : unexpected(thrown),
  }).pipe(
    Effect.filterOrFail(
      (answer) => !Effect.isEffect(answer),
      () => providerBroken("configuration", `the provider returned an Effect; wrap it in effectProvider("${name}", …)`),
    ),
  )

/** Like the `cause` of other errors, it does not become JSON, where its text might reach a log. */
const unexpected = (thrown: unknown): ProviderError =>
  Object.defineProperty(
    providerUnavailable(`the provider threw ${isError(thrown) ? thrown.name : typeof thrown}`),
    "cause",
    { value: thrown },
  )

/** Reads an audio file into one piece. */
export const wholeAudio = (content: AudioInput["content"], bytes: number) =>
  Effect.map(Stream.runCollect(content), (chunks) => concat(chunks, bytes))
