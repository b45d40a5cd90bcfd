import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

/** Written last: a blob exists once its manifest does. */
export type Manifest = typeof Manifest.Type
const Manifest = Schema.Struct({
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

export const decodeManifest = (bytes: Uint8Array): Manifest | undefined =>
  Option.getOrUndefined(
    Option.filter(
      decode(Buffer.from(bytes).toString("utf8")),
      ({ bytes: total, chunkBytes, chunks }) => chunks.length === Math.ceil(total / chunkBytes),
    ),
  )
