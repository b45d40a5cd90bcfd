export { blobStoreConformance } from "./BlobStore.ts"
export { type CallerPlace, type CallerPorts, type CallerTransaction } from "./CallerTransactions/CallerTransaction.ts"
export { callerTransactionsConformance, type CallerTransactionsUnderTest } from "./callerTransactionsConformance.ts"
export { type Declared, type Place } from "./capabilities.ts"
export { type Check, type Section, type Stores, type StoreUnderTest } from "./Check.ts"
export { durabilityConformance, type DurableStore } from "./durabilityConformance.ts"
export { arrangeEveryState } from "./everyState.ts"
export { callEveryVerb } from "./everyVerb.ts"
export * as fixtures from "./fixtures.ts"
export { compareWithMemory, type Comparison, findDifference } from "./referenceComparison.ts"
export { simulationConformance, type SimulatedStoresUnderTest } from "./simulationConformance.ts"
export { storeSections } from "./sections.ts"
export {
  jobDirectoryConformance,
  jobStoreConformance,
  keyDirectoryConformance,
  secretStoreConformance,
  storeConformance,
  switchboardConformance,
  uploadStoreConformance,
} from "./storeConformance.ts"
