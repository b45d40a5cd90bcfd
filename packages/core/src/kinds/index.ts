export * from "./builtInKinds.ts"
export {
  type FieldsSchema,
  fieldsDecoder,
  decodeFields,
  isStandardSchema,
  type ReadRequest,
  type RequestReader,
  type RequestSchema,
  requestReader,
} from "./readBySchema.ts"
export type { StandardSchema, StandardResult, StandardIssue } from "./StandardSchema.ts"
export { portsOf, closedKinds, switchesOf } from "./installedKinds.ts"
export { IntegerBetween, OneOf, PositiveUpTo, providerVoice, Text, UploadReference } from "./fields.ts"
export * from "./AttemptContext.ts"
export type { BatchedJob, BatchedResult, KindBatch, RunBatch } from "./JobBatch.ts"
export * from "./JobKind.ts"
export * from "./KindDefinition.ts"
export * from "./Voices.ts"
