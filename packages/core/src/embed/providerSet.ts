import { Effect, Stream } from "effect"
import { type BlobCorrupt, type BlobUnavailable, isError, isTaggedError } from "../domain/index.ts"
import {
  type AudioInput,
  type ProviderCall,
  type ProviderError,
  type ProviderName,
  providerNames,
  type ProviderPorts,
  type ProviderSet,
  providerUnavailable,
} from "../ports/index.ts"
import type { AnyProvider, AsyncAudio, AsyncCall, AsyncProviders } from "./AsyncProviders.ts"
import { concat } from "./concat.ts"

/** Makes the port of each provider of a function that returns promises. */
const ports: {
  readonly [Name in ProviderName]: (provider: NonNullable<AsyncProviders[Name]>) => ProviderPorts[Name]
} = {
  transcription: (provider) => ({ transcribe: hearing(provider) }),
  reply: (provider) => ({ reply: (request, call) => awaiting(provider, request, call) }),
  speech: (provider) => ({ speak: (request, call) => awaiting(provider, request, call) }),
  image: (provider) => ({ generate: (request, call) => awaiting(provider, request, call) }),
  voiceTurn: (provider) => ({ turn: hearing(provider) }),
}

/**
 * Providers for code without Effect. What such a function throws decides what becomes of the job: `providerRefused(…)`,
 * `providerBroken(…)`, `resultInvalid(…)` and `providerUnavailable(…)` say so themselves; anything else counts as a provider
 * that is out of reach, and is tried again. Of such an error the log gets the name alone, since its message may quote anything.
 */
export const providerSet = (
  providers: { readonly [Name in ProviderName]?: AnyProvider<Name> | undefined } | undefined,
): ProviderSet =>
  Object.fromEntries(
    providerNames.flatMap((name) => {
      const provider = providers?.[name]
      if (provider === undefined) return []
      const port: (provider: never) => unknown = ports[name]
      // What was made elsewhere is a port already.
      return [[name, typeof provider === "function" ? port(provider as never) : provider]]
    }),
  )

const awaiting = <Request, Answer>(
  ask: (request: Request, call: AsyncCall) => Promise<Answer>,
  request: Request,
  call: ProviderCall,
): Effect.Effect<Answer, ProviderError> =>
  Effect.tryPromise({
    // What throws before there is a promise rejects as well.
    try: async (signal) => ask(request, { ...call, signal }),
    catch: (thrown) =>
      isTaggedError<ProviderError>(thrown, "ProviderFailure", "ProviderBroken")
        ? thrown
        : providerUnavailable(`the provider threw ${isError(thrown) ? thrown.name : typeof thrown}`),
  })

/** The same for what listens: the audio is read before the provider is asked, so that a damaged file is not its fault. */
const hearing =
  <Request extends { readonly audio: AudioInput }, Answer>(
    ask: (request: Omit<Request, "audio"> & { readonly audio: AsyncAudio }, call: AsyncCall) => Promise<Answer>,
  ) =>
  (request: Request, call: ProviderCall): Effect.Effect<Answer, ProviderError | BlobUnavailable | BlobCorrupt> => {
    const { content, ...about } = request.audio
    return Effect.flatMap(wholeAudio(content, about.bytes), (data) =>
      awaiting(ask, { ...request, audio: { ...about, data } }, call),
    )
  }

/** The bytes of an audio file, in one piece. */
export const wholeAudio = (content: AudioInput["content"], bytes: number) =>
  Effect.map(Stream.runCollect(content), (chunks) => concat(chunks, bytes))
