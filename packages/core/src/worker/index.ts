export { deliverFinished, runDeliveries } from "./deliverFinished.ts"
export { fireSchedules, runSchedules } from "./fireSchedules.ts"
export { nextTick, type Schedule, type ScheduleTiming, tickKey } from "../domain/Schedule.ts"
export * from "../domain/Attempt.ts"
export * from "../domain/BlobLineage.ts"
export * from "../domain/Circuit.ts"
export { Worker, type WorkerNeeds } from "./Worker.ts"
export { AttemptMeter, type AttemptOutcome } from "./AttemptMeter.ts"
export type { MetricFamilies, MetricFamily } from "./MetricFamilies.ts"
export { BackgroundMeter } from "./BackgroundMeter.ts"
export { backgroundMeasurement, backgroundMeter } from "./backgroundMetrics.ts"
export { type JobMetrics, jobMetrics } from "./jobMetrics.ts"
export { queueMeasurement } from "./queueMetrics.ts"
export { workerMetrics } from "./workerMetrics.ts"
export { BlobGuard } from "./BlobGuard.ts"
export { eraseHereToo, type ErasedElsewhere, findErasedElsewhere } from "./erasedElsewhere.ts"
export {
  collectOrphans,
  type OrphanRecords,
  type OrphanSurvey,
  type OrphanSweep,
  surveyOrphans,
  sweepOrphans,
} from "./collectOrphans.ts"
export { adoptBlobs, publishNewest, requireCurrent } from "./lineage.ts"
export {
  adoptCopy,
  comparePlaces,
  copyStanding,
  type CopyAdoption,
  requireOriginal,
  type StoreWhereabouts,
  type UnfinishedJobs,
} from "./copies.ts"
export { pruneAndReport, type Pruned, pruneOnce } from "./prune.ts"
export { expireOverdue, layerSweeps } from "./Sweeper.ts"
