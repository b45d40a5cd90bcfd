export { type ErrorEntry, type ErrorEnvelope, errorCatalogue, type RefusalCode } from "@kiln/client/api"
export { KilnApi } from "@kiln/client/api"
export * from "./Health.ts"
export * from "./HttpConfig.ts"
export * from "./HttpService.ts"
export { type KeyWish, newKey } from "./newKey.ts"
export { type InstallationStanding, providerStandings } from "./providerStandings.ts"
export { parseTrustedProxies } from "./wire/ClientAddress.ts"
export { defaultRateLimits, parseRateLimits, type RateLimits } from "./wire/RateLimiter.ts"
export { jobFamily, type JobFamily, type JobRoute, type JobRouteOptions, jobRoute } from "@kiln/client/api"
export { parseKeyring } from "./wire/SignedUrls.ts"
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
export { signingSecret } from "./server/signingKeyring.ts"
