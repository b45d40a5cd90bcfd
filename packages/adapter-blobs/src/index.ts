export { FileBlobStore } from "./FileBlobStore.ts"
export { UnstorageBlobStore } from "./UnstorageBlobStore.ts"
export type { UnstorageLike } from "./unstorage/UnstorageLike.ts"
