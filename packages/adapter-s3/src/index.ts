export { awsCredentials, awsRegion } from "./awsCredentials.ts"
export { s3Blobs } from "./s3Blobs.ts"
export type { S3BlobOptions, S3Credentials } from "./S3BlobOptions.ts"
export { S3BlobStore } from "./S3BlobStore.ts"
