import { backgroundMeasurement, backgroundMeter, jobMetrics, queueMeasurement, workerMetrics } from "@kiln/core/worker"
import * as series from "./series.ts"

/** The metrics of the engine, in the registry of this process. */
export const { attemptMeter, countJobs } = jobMetrics(series)
export const measureWorker = workerMetrics(series)
export const meterOfBackground = backgroundMeter(series)
export const measureBackground = backgroundMeasurement(series)
export const measureQueue = queueMeasurement(series)
