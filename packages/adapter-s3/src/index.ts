export { awsCredentials, awsRegion } from "./awsCredentials.ts"
export { s3Blobs, S3BlobStore } from "./S3BlobStore.ts"
export type { S3BlobOptions, S3Credentials } from "./S3BlobOptions.ts"
