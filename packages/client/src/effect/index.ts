export { KilnClient, type KilnClientOptions, makeKilnClient } from "./KilnClient.ts"
export { sendUpload, UploadRefused } from "./sendUpload.ts"
export { waitForJob, type WaitOptions, WaitTimedOut } from "./waitForJob.ts"
