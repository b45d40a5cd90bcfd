import { UnstorageBlobStore } from "@kiln/adapter-blobs"
import { blobStoreConformance } from "@kiln/conformance"
import { Effect, Layer } from "effect"
import { createStorage, prefixStorage } from "unstorage"
import fsDriver from "unstorage/drivers/fs"
import { carelessStorage, textDriver } from "./support/drivers.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const onStorage = (name: string, options: () => Parameters<typeof UnstorageBlobStore.layer>[0]) =>
  blobStoreConformance({
    name: `unstorage, ${name}`,
    layer: Layer.unwrap(Effect.sync(() => UnstorageBlobStore.layer(options()))),
    capabilities: { durable: false, multiProcess: false },
    reasons: { durable: "its driver stores everything in memory", multiProcess: "it is one process's memory" },
  })

onStorage("memory driver", () => ({ storage: createStorage() }))
onStorage("memory driver, small chunks", () => ({ storage: createStorage(), chunkBytes: 9999 }))
onStorage("a part of a storage", () => ({ storage: prefixStorage(createStorage(), "deep:below") }))
onStorage("a driver for text only", () => ({ storage: createStorage({ driver: textDriver() }) }))
onStorage("a driver that ignores the prefix and returns any type", () => ({ storage: carelessStorage() }))

blobStoreConformance({
  name: "unstorage, fs driver",
  place: Effect.map(temporaryDirectory, (base) =>
    Layer.unwrap(
      Effect.sync(() => UnstorageBlobStore.layer({ storage: createStorage({ driver: fsDriver({ base }) }) })),
    ),
  ),
  capabilities: { durable: true, multiProcess: true },
})
