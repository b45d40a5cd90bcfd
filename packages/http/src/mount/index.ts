export { jobFamily, type JobFamily, type JobRoute, type JobRouteOptions, jobRoute } from "@kiln/client"
export type { Caller } from "../server/Caller.ts"
export type { KeyLimits, RateLimitPolicy } from "@kiln/core/domain"
export type { RateLimits } from "../wire/RateLimiter.ts"
export { type ApiKey, type ApiKeyOptions, createApiKey, limitApiKey } from "./createApiKey.ts"
export { fetchHandler } from "./mountFetch.ts"
export type {
  FetchHandler,
  FetchMountOptions,
  MountedEngine,
  MountOptions,
  NodeHandler,
  NodeMountOptions,
} from "./MountOptions.ts"
export { nodeHandler } from "./mountNode.ts"
