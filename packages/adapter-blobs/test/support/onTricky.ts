import { UnstorageBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { type TrickyStorage, trickyStorage } from "./drivers.ts"

export const LIMIT = { maxBytes: 1e9 }
export const bytes = Uint8Array.from({ length: 2500 }, (_, n) => (n * 31) % 251)
export const content = Stream.unfold(0, (at) =>
  Effect.succeed(at < bytes.length ? ([bytes.slice(at, at + 300), at + 300] as const) : undefined),
)

/** Runs on a driver that behaves until told otherwise, with a blob of three chunks. */
export const onTricky = <E>(run: (store: BlobStore["Service"], storage: TrickyStorage) => Effect.Effect<void, E>) => {
  const storage = trickyStorage()
  return Effect.gen(function* () {
    yield* run(yield* BlobStore, storage)
  }).pipe(Effect.provide(UnstorageBlobStore.layer({ storage, chunkBytes: 1000 })))
}

export const itemsOf = ({ items }: TrickyStorage) => [...items.keys()].filter((key) => !key.startsWith("~kiln"))
export const manifestOf = (storage: TrickyStorage) => itemsOf(storage).find((key) => key.endsWith("manifest.json"))!
export const chunkOf = (storage: TrickyStorage, index: number) =>
  itemsOf(storage).find((key) => key.endsWith(`-${index}`))!
