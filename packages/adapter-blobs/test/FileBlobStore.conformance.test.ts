import { FileBlobStore } from "@kiln/adapter-blobs"
import { blobStoreConformance } from "@kiln/testing/conformance"
import { Effect, Layer } from "effect"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

blobStoreConformance({
  name: "files",
  layer: Layer.unwrap(Effect.map(temporaryDirectory, (directory) => FileBlobStore.layer({ directory }))),
})
