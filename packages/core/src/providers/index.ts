export {
  type AnswerOf,
  builtInPorts,
  type NameOf,
  type ProviderName,
  providerNames,
  type ProviderRef,
} from "./builtInPorts.ts"
export type { GeneratedFile } from "./checks.ts"
export {
  type AnyProvider,
  type AudioInput,
  type EffectProvider,
  effectProvider,
  type ProviderCall,
  type ProviderRequest,
  Providers,
  type ProviderSet,
} from "./Provider.ts"
export {
  type BrokenReason,
  providerBroken,
  type ProviderError,
  ProviderFailure,
  ProviderPostponed,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "./ProviderError.ts"
export { type ProviderBounds, type ProviderPort, providerPort, type ProviderPortOptions } from "./ProviderPort.ts"
export { rateProblem } from "../domain/Rate.ts"
export type { Reply, ReplyRequest } from "./reply.ts"
export type { AudioDetails, Transcript } from "./transcription.ts"
export type { Turn } from "./voiceTurn.ts"
