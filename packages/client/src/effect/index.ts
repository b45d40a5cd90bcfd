export { KilnClient, type KilnClientOptions } from "./KilnClient.ts"
export { sendUpload, UploadRefused } from "./sendUpload.ts"
export { waitForAudioJob, waitForImageJob, type WaitOptions, WaitTimeout } from "./waitForJob.ts"
