import { BlobUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import type { UnstorageLike } from "./UnstorageLike.ts"

/** Drivers of unstorage that are known not to list all items. */
const refused: ReadonlyMap<string, string> = new Map([
  ["null", "it stores nothing"],
  ["s3", "it lists at most 1,000"],
  ["uploadthing", "it lists one page"],
  ["vercel-runtime-cache", "it lists none"],
])

/** Fails with the driver's name and the remedy, without writing to the storage. Unknown drivers are probed afterwards. */
export const refuseDriver = (storage: UnstorageLike): Effect.Effect<void, BlobUnavailable> => {
  const name = storage.getMount?.("").driver.name
  const reason = name === undefined ? undefined : refused.get(name)
  if (reason === undefined) return Effect.void
  const cause = new Error(
    `unstorage's ${name} driver does not list all of its items (${reason}): use KILN_BLOBS=s3://bucket/prefix (S3BlobStore), ` +
      "KILN_BLOBS=file:/a/directory (FileBlobStore), or a driver that lists all keys",
  )
  return Effect.fail(new BlobUnavailable({ operation: "start", cause }))
}
