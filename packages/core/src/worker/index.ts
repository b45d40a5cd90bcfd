export * from "../domain/Attempt.ts"
export * from "../domain/BlobLineage.ts"
export * from "../domain/Circuit.ts"
export { Worker, type WorkerNeeds } from "./Worker.ts"
export { BlobGuard } from "./BlobGuard.ts"
export {
  collectOrphans,
  type OrphanRecords,
  type OrphanSurvey,
  type OrphanSweep,
  surveyOrphans,
  sweepOrphans,
} from "./collectOrphans.ts"
export { type Adoption, adoptBlobs, requireCurrent } from "./lineage.ts"
export { expireOverdue, layerSweeps, pruneAndReport, type Pruned, pruneOnce } from "./Sweeper.ts"
