export {
  type AnyProvider,
  type AsyncAudio,
  type AsyncCall,
  type AsyncFile,
  type AsyncProvider,
  type AsyncProviders,
  asyncProviders,
  type AsyncRequest,
  type FileBody,
  type MadeProvider,
  providerBroken,
  providerRefused,
  providerUnavailable,
  resultInvalid,
} from "./AsyncProviders.ts"
export type { CallerContext } from "./CallerContext.ts"
export { createEngine } from "./createEngine.ts"
export type * from "./EmbeddedEngine.ts"
export type * from "./EngineOptions.ts"
export type * from "../engine/JobEvent.ts"
export { fail } from "./fail.ts"
export { builtIn, type BuiltInKind, builtInKinds, jobKind } from "./jobKind.ts"
export type * from "./JobResult.ts"
export type * from "./OperatorVerbs.ts"
