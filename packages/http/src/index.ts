export {
  layerProviderDetails,
  layerWorkerReadiness,
  layerWriteReadiness,
  Readiness,
  type ReadinessReport,
} from "./Health.ts"
export * from "./HttpConfig.ts"
export { type AnsweredRequest, HttpObserver } from "./HttpObserver.ts"
export { type HttpNeeds, HttpService, HttpSettingInvalid, ListenFailed, type RunningService } from "./server/serve.ts"
export { mountFetch } from "./mount/mountFetch.ts"
export { mountNode } from "./mount/mountNode.ts"
export type { MountNeeds } from "./mount/mountService.ts"
export { type KeyWish, newKey, newSecret } from "./newKey.ts"
export { type DocumentOptions, openApiDocument } from "./pages/installationApi.ts"
export type { PageConfig, PageKind } from "./pages/pageConfig.ts"
export { type InstallationStanding, providerStandings } from "./providerStandings.ts"
export { findKeyringConflicts, type ListedSigningKey, listSigningKeys, signProbe } from "./server/signingKeyring.ts"
export {
  addSigningKey,
  dropSigningKey,
  generatedKid,
  type StoredKey,
  useSigningKey,
} from "./server/storedSigningKeys.ts"
export { knownMethod } from "./server/requestSpan.ts"
export { parseTrustedProxies } from "./wire/ClientAddress.ts"
export { defaultRateLimits } from "./server/rateLimits.ts"
export { parseKeyring } from "./wire/SignedUrls.ts"
