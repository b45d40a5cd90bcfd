export * from "./builtInPorts.ts"
export {
  ProviderFailure,
  type BrokenReason,
  ProviderBroken,
  ProviderPostponed,
  type ProviderError,
  type ProviderCallError,
  providerUnavailable,
  resultInvalid,
  providerRefused,
  providerBroken,
} from "./ProviderError.ts"
export { type GeneratedFile } from "./checks.ts"
export { ProviderPaused, type ProviderStanding } from "./circuitBreaker.ts"
export type { CallRate } from "./ProviderGuard.ts"
export * from "./Provider.ts"
export * from "./ProviderPort.ts"
export { rateProblem } from "../domain/Rate.ts"
export type { Reply, ReplyRequest } from "./reply.ts"
export type { AudioDetails, Transcript } from "./transcription.ts"
export type { Turn } from "./voiceTurn.ts"
