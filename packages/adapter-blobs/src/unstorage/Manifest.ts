import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { BlobCorrupt } from "@kiln/core/domain"
import type { Items } from "./Items.ts"
import { manifestKey } from "./itemKeys.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

/** Written last: a blob exists once its manifest does. */
export type Manifest = typeof Manifest.Type
export const Manifest = Schema.Struct({
  version: Schema.Literal(1),
  /** Part of the names of the blob's chunks. */
  writeId: Schema.String,
  bytes: Count,
  sha256: Sha256,
  /** Length of each chunk except the last, in bytes. */
  chunkBytes: Schema.Int.check(Schema.isGreaterThan(0)),
  /** SHA-256 of each chunk, in order. */
  chunks: Schema.Array(Sha256),
})

const ManifestText = Schema.fromJsonString(Manifest)
const encode = Schema.encodeSync(ManifestText)
const decode = Schema.decodeUnknownOption(ManifestText)

export const encodeManifest = (manifest: Manifest): Uint8Array => Buffer.from(encode(manifest), "utf8")

const decodeManifest = (bytes: Uint8Array): Manifest | undefined =>
  Option.getOrUndefined(
    Option.filter(
      decode(Buffer.from(bytes).toString("utf8")),
      ({ bytes: total, chunkBytes, chunks }) => chunks.length === Math.ceil(total / chunkBytes),
    ),
  )

/** Reads the manifest of a blob; `undefined` if the blob does not exist. */
export const readManifest = Effect.fnUntraced(function* (items: Items, key: string) {
  const bytes = yield* items.read(manifestKey(key))
  if (bytes === undefined) return undefined
  return decodeManifest(bytes) ?? (yield* Effect.fail(new BlobCorrupt({ key })))
})
