export { deliverFinished, runDeliveries } from "./maintenance/deliverFinished.ts"
export { fireSchedules, runSchedules } from "./maintenance/fireSchedules.ts"
export { nextTick, type Overlap, type Schedule, type ScheduleTiming, tickKey } from "../domain/Schedule.ts"
export * from "../domain/Attempt.ts"
export * from "../domain/BlobLineage.ts"
export * from "../domain/Circuit.ts"
export { drainJobs } from "./drainJobs.ts"
export { type Drained, type DrainLimits } from "./Drained.ts"
export { WorkerProcess } from "./claiming/publishCapabilities.ts"
export { Worker, type WorkerNeeds } from "./Worker.ts"
export { AttemptMeter, type AttemptOutcome, type JobMetrics, jobMetrics } from "./metrics/jobMetrics.ts"
export type { MetricFamilies, MetricFamily } from "./metrics/MetricFamilies.ts"
export { BackgroundMeter, backgroundMeasurement, backgroundMeter } from "./metrics/backgroundMetrics.ts"
export { queueMeasurement, workerMetrics } from "./metrics/workerMetrics.ts"
export { BlobGuard } from "../installation/BlobGuard.ts"
export { eraseHereToo, type ErasedElsewhere, findErasedElsewhere } from "./maintenance/erasedElsewhere.ts"
export {
  collectOrphans,
  type OrphanRecords,
  type OrphanSurvey,
  type OrphanSweep,
  surveyOrphans,
  sweepOrphans,
} from "./maintenance/collectOrphans.ts"
export { adoptBlobs, publishNewest, requireCurrent } from "../installation/lineage.ts"
export {
  adoptCopy,
  comparePlaces,
  copyStanding,
  type CopyAdoption,
  requireOriginal,
  type StoreWhereabouts,
  type UnfinishedJobs,
} from "../installation/copies.ts"
export { pruneAndReport, type Pruned, pruneOnce } from "./maintenance/prune.ts"
export { expireOverdue, layerSweeps } from "./maintenance/Sweeper.ts"
