export { builtInRoutes } from "./builtInRoutes.ts"
export { outputNames } from "./jobSchemas.ts"
export { exampleIdempotencyKey } from "./endpoints.ts"
export { type ApiOf, declareApi } from "./declareApi.ts"
export {
  type ErrorEntry,
  type ErrorEnvelope,
  type ErrorType,
  errorCatalogue,
  errorTypes,
  type RefusalCode,
  refusalCodes,
} from "./ErrorCatalogue.ts"
export { isCustom } from "./jobEndpoints.ts"
export { KilnApi } from "./KilnApi.ts"
export * from "../routes/fieldNames.ts"
export { audioJobs, imageJobs, type JobBody } from "../routes/JobFamily.ts"
export type { RoutedKind, UploadOf } from "../routes/jobRoute.ts"
export type * from "../routes/wireTypes.ts"
