import { builtInRoutes } from "./builtInRoutes.ts"
import { declareApi } from "./declareApi.ts"

/** The whole HTTP API of the built-in kinds, as data: OpenAPI and clients are made from it. */
export class KilnApi extends declareApi(builtInRoutes) {}
