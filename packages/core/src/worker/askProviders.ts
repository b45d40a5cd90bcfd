import { Effect } from "effect"
import { limits } from "../domain/index.ts"
import type { Ask, AttemptError } from "../kinds/AttemptContext.ts"
import { checkTurn } from "../kinds/checkTurn.ts"
import { Misuse } from "../kinds/Misuse.ts"
import { checkAudio, checkPng, checkReply, checkTranscript } from "../kinds/results.ts"
import type { ProviderAnswers, ProviderCall, ProviderName, ProviderRequests, ProviderSet } from "../ports/index.ts"

/** How a call goes out and its answer comes in: the way of a port, and what its answer must be. */
type Ways = {
  readonly [Name in ProviderName]: {
    readonly call: (
      provider: NonNullable<ProviderSet[Name]>,
      request: ProviderRequests[Name],
      call: ProviderCall,
    ) => Effect.Effect<ProviderAnswers[Name], AttemptError>
    readonly check: (
      answer: ProviderAnswers[Name],
      request: ProviderRequests[Name],
    ) => Effect.Effect<ProviderAnswers[Name], AttemptError>
  }
}

const ways: Ways = {
  transcription: { call: (provider, request, call) => provider.transcribe(request, call), check: checkTranscript },
  reply: {
    call: (provider, request, call) => provider.reply(request, call),
    check: (answer, { maxOutputTokens }) => checkReply(answer, maxOutputTokens),
  },
  speech: { call: (provider, request, call) => provider.speak(request, call), check: checkAudio },
  image: {
    call: (provider, request, call) => provider.generate(request, call),
    check: (answer) => checkPng(answer, limits.imageSize),
  },
  voiceTurn: {
    call: (provider, request, call) => provider.turn(request, call),
    check: (answer, { maxOutputTokens }) => checkTurn(answer, maxOutputTokens),
  },
}

/** Lets one call of a provider through, or not. */
export type Guarding = (
  name: ProviderName,
) => <A>(call: Effect.Effect<A, AttemptError>) => Effect.Effect<A, AttemptError>

/**
 * The providers of a mode as one attempt asks them. Providers are others' code: what they answer is looked at before it is
 * believed, and what is no answer of the kind is `result_invalid`.
 */
export const askProviders = (
  providers: ProviderSet,
  call: ProviderCall,
  guarding?: Guarding,
): { readonly ask: Ask; readonly has: (name: ProviderName) => boolean } => {
  const through = <Name extends ProviderName>(
    name: Name,
  ): ((request: ProviderRequests[Name]) => Effect.Effect<ProviderAnswers[Name], AttemptError>) => {
    const way: Ways[Name] = ways[name]
    return (request) =>
      Effect.suspend(() => {
        const provider: ProviderSet[Name] = providers[name]
        if (provider === undefined) return Effect.die(new Misuse(`the kind did not name the provider "${name}"`))
        const answer = Effect.flatMap(way.call(provider, request, call), (given) => way.check(given, request))
        return guarding === undefined ? answer : guarding(name)(answer)
      })
  }
  return {
    ask: {
      transcription: through("transcription"),
      reply: through("reply"),
      speech: through("speech"),
      image: through("image"),
      voiceTurn: through("voiceTurn"),
    },
    has: (name) => providers[name] !== undefined,
  }
}
