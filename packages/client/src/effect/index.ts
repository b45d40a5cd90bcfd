export { KilnClient, type KilnClientOptions, makeKilnClient } from "./KilnClient.ts"
export { sendUpload, UploadRefused } from "./sendUpload.ts"
export { type FinishedState, type PolledState, waitForJob, type WaitForJobOptions, WaitTimeout } from "./waitForJob.ts"
