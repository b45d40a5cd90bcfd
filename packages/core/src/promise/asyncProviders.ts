import { Effect, Stream } from "effect"
import type { BlobCorrupt, BlobUnavailable } from "../domain/index.ts"
import {
  type AudioInput,
  type ProviderAnswers,
  ProviderBroken,
  type ProviderCall,
  type ProviderError,
  ProviderFailure,
  type ProviderName,
  type ProviderRequests,
  type ProviderSet,
  providerUnavailable,
} from "../ports/index.ts"
import { concat } from "./concat.ts"

/** Which call this is, and when it is no longer wanted. */
export interface AsyncCall extends ProviderCall {
  /** Aborted when the job is lost or the process stops. Give it to `fetch`. */
  readonly signal: AbortSignal
}

/** Audio for code without Effect, whole in memory: at most 25 MiB. */
export interface AsyncAudio extends Omit<AudioInput, "content"> {
  readonly data: Uint8Array
}

type AsyncRequest<Name extends ProviderName> = ProviderRequests[Name] extends { readonly audio: AudioInput }
  ? Omit<ProviderRequests[Name], "audio"> & { readonly audio: AsyncAudio }
  : ProviderRequests[Name]

type AsyncProvider<Name extends ProviderName> = (
  request: AsyncRequest<Name>,
  call: AsyncCall,
) => Promise<ProviderAnswers[Name]>

/** Providers as functions that return promises, each under the name of its port. */
export type AsyncProviders = { readonly [Name in ProviderName]?: AsyncProvider<Name> }

/**
 * Providers for code without Effect. What such a function throws decides what becomes of the job: `providerRefused(…)`,
 * `providerBroken(…)`, `resultInvalid(…)` and `providerUnavailable(…)` say so themselves; anything else counts as a provider
 * that is out of reach, and is tried again. Of such an error the log gets the name alone, since its message may quote anything.
 */
export const asyncProviders = ({ image, reply, speech, transcription, voiceTurn }: AsyncProviders): ProviderSet => ({
  ...(transcription && { transcription: { transcribe: hearing(transcription) } }),
  ...(reply && { reply: { reply: (request, call) => awaiting(reply, request, call) } }),
  ...(speech && { speech: { speak: (request, call) => awaiting(speech, request, call) } }),
  ...(image && { image: { generate: (request, call) => awaiting(image, request, call) } }),
  ...(voiceTurn && { voiceTurn: { turn: hearing(voiceTurn) } }),
})

const awaiting = <Request, Answer>(
  ask: (request: Request, call: AsyncCall) => Promise<Answer>,
  request: Request,
  call: ProviderCall,
): Effect.Effect<Answer, ProviderError> =>
  Effect.tryPromise({
    // What throws before there is a promise rejects as well.
    try: async (signal) => ask(request, { ...call, signal }),
    catch: (thrown) =>
      thrown instanceof ProviderFailure || thrown instanceof ProviderBroken
        ? thrown
        : providerUnavailable(`the provider threw ${thrown instanceof Error ? thrown.name : typeof thrown}`),
  })

/** The same for what listens: the audio is read before the provider is asked, so that a damaged file is not its fault. */
const hearing =
  <Request extends { readonly audio: AudioInput }, Answer>(
    ask: (request: Omit<Request, "audio"> & { readonly audio: AsyncAudio }, call: AsyncCall) => Promise<Answer>,
  ) =>
  (request: Request, call: ProviderCall): Effect.Effect<Answer, ProviderError | BlobUnavailable | BlobCorrupt> => {
    const { content, ...about } = request.audio
    return Effect.flatMap(collect(content, about.bytes), (data) =>
      awaiting(ask, { ...request, audio: { ...about, data } }, call),
    )
  }

const collect = (content: AudioInput["content"], bytes: number) =>
  Effect.map(Stream.runCollect(content), (chunks) => concat(chunks, bytes))
