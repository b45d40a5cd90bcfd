export { adminDocument } from "./adminApi.ts"
export { type AdminErrorCode, adminErrors } from "./errors.ts"
export {
  type InputOf,
  type Operation,
  type OperationName,
  operations,
  type ResultOf,
  type RouteOf,
} from "./operations.ts"
