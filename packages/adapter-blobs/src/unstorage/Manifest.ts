import * as Effect from "effect/Effect"
import { BlobCorrupt } from "@kiln/core/domain"
import type { Items } from "./Items.ts"
import { manifestKey } from "./itemKeys.ts"
import type { Manifest } from "./ManifestText.ts"

export type { Manifest } from "./ManifestText.ts"

/** Loaded with the first blob: it needs Effect Schema, and a program that stores blobs as files imports this package too. */
const manifestText = Effect.promise(() => import("./ManifestText.ts"))

export const encodeManifest = (manifest: Manifest): Effect.Effect<Uint8Array> =>
  Effect.map(manifestText, ({ encodeManifest: encode }) => encode(manifest))

/** Reads the manifest of a blob; `undefined` if the blob does not exist. */
export const readManifest = Effect.fnUntraced(function* (items: Items, key: string) {
  const bytes = yield* items.read(manifestKey(key))
  if (bytes === undefined) return undefined
  const { decodeManifest } = yield* manifestText
  return decodeManifest(bytes) ?? (yield* Effect.fail(new BlobCorrupt({ key })))
})
