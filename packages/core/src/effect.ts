export * from "./engine/index.ts"
export { UploadRequest } from "./kinds/fields.ts"
export { providerSet } from "./embed/providerSet.ts"
export { callerOf, projectAskedFor } from "./embed/checkOptions.ts"
export {
  type EmbeddedContext,
  embeddedContext,
  type EmbeddedInside,
  type EmbeddedServices,
} from "./embed/EngineRuntime.ts"
export { partsOfSubmitAndWait } from "./embed/jobVerbs.ts"
export { type EmbeddedOverrides, openEmbedded } from "./embed/openEmbedded.ts"
export { finishHandlersOf } from "./embed/submitVerbs.ts"
export { wholeKind } from "./embed/wholeKind.ts"
export { monotonicMs } from "./domain/monotonicMs.ts"
