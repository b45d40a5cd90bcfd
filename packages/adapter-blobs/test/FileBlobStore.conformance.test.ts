import { FileBlobStore } from "@kiln/adapter-blobs"
import { blobStoreConformance } from "@kiln/conformance"
import { Effect } from "effect"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

blobStoreConformance({
  name: "files",
  place: Effect.map(temporaryDirectory, (directory) => FileBlobStore.layer({ directory })),
  capabilities: { durable: true, multiProcess: true },
})
