export { KilnClient, type KilnClientOptions, makeKilnClient } from "./KilnClient.ts"
export { sendUpload, UploadRefused } from "./sendUpload.ts"
export { waitForJob, type WaitOptions, WaitTimeout } from "./waitForJob.ts"
