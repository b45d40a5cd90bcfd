export type { ErrorType, RefusalCode } from "./api/ErrorCatalogue.ts"
export type { Client, DoneJob, FileAnnouncement, FileJobMethods, JobMethods, Jobs, WholeCalls } from "./Client.ts"
export type {
  CallOptions,
  ClientOptions,
  CreateOptions,
  RunOptions,
  RunProgress,
  SendOptions,
  TransportOptions,
  WaitOptions,
} from "./ClientOptions.ts"
export { createClient } from "./createClient.ts"
export { ApiError, ConnectionLost, JobFailed, WaitTimeout } from "./errors.ts"
export type { FinishedJob, JobReference, JobStates, JobType, RoutedJobs } from "./JobStates.ts"
export { jobFamily, type JobFamily } from "./routes/JobFamily.ts"
export { type JobRoute, jobRoute, type JobRouteOptions, remoteKind } from "./routes/jobRoute.ts"
export { type FileBody, sendUpload } from "./sendUpload.ts"
export type * from "./wire.ts"
