export { fileBlobs, FileBlobStore } from "./FileBlobStore.ts"
export { type UnstorageBlobOptions, unstorageBlobs, UnstorageBlobStore } from "./UnstorageBlobStore.ts"
export type { UnstorageLike } from "./unstorage/UnstorageLike.ts"
