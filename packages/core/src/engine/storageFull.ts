import type { KeptBytes } from "../domain/index.ts"
import { StorageFull } from "../domain/Errors.ts"

/** The error of a project that keeps this much. */
export const storageFull = (maxBytes: number, { files, uploads }: KeptBytes): StorageFull =>
  new StorageFull({ maxBytes, uploadBytes: uploads, resultBytes: files })
