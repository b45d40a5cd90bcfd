export { blobStoreConformance } from "./BlobStore.ts"
export { type CallerPlace, type CallerPorts, type CallerTransaction } from "./CallerTransactions/CallerTransaction.ts"
export {
  callerChecks,
  callerTransactionsConformance,
  type CallerTransactionsUnderTest,
  runCallerCheck,
} from "./callerTransactionsConformance.ts"
export { type Declared, type Place } from "./capabilities.ts"
export { type Check, type Section, type Stores, type StoreUnderTest } from "./Check.ts"
export { storePlaceChecks } from "./durability/storePlaceChecks.ts"
export { durabilityConformance, type DurableStore, runPlaceCheck } from "./durabilityConformance.ts"
export { arrangeEveryState } from "./everyState.ts"
export { callEveryVerb } from "./everyVerb.ts"
export * as fixtures from "./fixtures.ts"
export { finishKeptJobs, type KeptJobs, readKeptDatabase } from "./keptDatabase.ts"
export { compareWithMemory, type Comparison, findDifference } from "./referenceComparison.ts"
export { operatorStoresConformance } from "./operatorStoresConformance.ts"
export { rateLimitConformance } from "./rateLimitConformance.ts"
export { storeSections } from "./sections.ts"
export {
  auditLogConformance,
  jobDirectoryConformance,
  jobStoreConformance,
  keyDirectoryConformance,
  secretStoreConformance,
  storeConformance,
  switchboardConformance,
  uploadStoreConformance,
} from "./storeConformance.ts"
