export { apiOf, type DocumentOptions } from "./apiOf.ts"
export {
  type ErrorEntry,
  type ErrorEnvelope,
  type ErrorType,
  errorCatalogue,
  errorTypes,
  type RefusalCode,
  refusalCodes,
} from "./ErrorCatalogue.ts"
export { KilnApi } from "./KilnApi.ts"
