export { type ErrorEntry, type ErrorEnvelope, errorCatalogue, type RefusalCode } from "@kiln/client/api"
export { KilnApi } from "@kiln/client/api"
export * from "./Health.ts"
export * from "./HttpConfig.ts"
export * from "./HttpService.ts"
export { defaultRateLimits, parseRateLimits, type RateLimits } from "./wire/RateLimiter.ts"
export type { KilnConfig } from "./cli/KilnConfig.ts"
export { jobFamily, type JobFamily, type JobRoute, type JobRouteOptions, jobRoute } from "@kiln/client/api"
export { mountFetch } from "./mount/mountFetch.ts"
export { mountNode } from "./mount/mountNode.ts"
export type {
  FetchHandler,
  FetchMountOptions,
  MountOptions,
  NodeHandler,
  NodeMountOptions,
} from "./mount/MountOptions.ts"
export type { MountNeeds } from "./mount/mountService.ts"
export { type DocumentOptions, openApiDocument } from "./pages/installationApi.ts"
export type { Caller } from "./server/Caller.ts"
