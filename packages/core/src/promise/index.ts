export * from "./asyncProviders.ts"
export * from "./createEngine.ts"
export * from "./EngineOptions.ts"
export type { FileRef, JobResult, KindName, Outputs, Requests } from "./JobResult.ts"
