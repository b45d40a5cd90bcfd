import type { JobHappening } from "../engine/JobHappening.ts"

/** What happened to a job in this process. */
export type JobEvent = JobHappening
export type JobEventType = JobEvent["type"]
