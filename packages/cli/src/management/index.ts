import * as Effect from "effect/Effect"
import { Readiness } from "@kiln/http"

export { serveManagement } from "./managementServer.ts"
export { openDashboard } from "./openDashboard.ts"
export { gaugeRefresh, metricsText } from "./metricsText.ts"
export { makeHttpObserver } from "../telemetry/httpMetrics.ts"
export { attemptMeter, countJobs, meterOfBackground } from "../telemetry/engineMetrics.ts"
export { measureProcess } from "../telemetry/processMetrics.ts"

export const readiness = Effect.map(Readiness, ({ report }) => report)
