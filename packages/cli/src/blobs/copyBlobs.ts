import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import type { BlobStore, NamedBlob, StoreInspection } from "@kiln/core/ports"
import type { ListedBlob } from "../backup/BackupDirectory.ts"

type Blobs = BlobStore["Service"]

const copiesAtOnce = 8

/** The result of copying one file. */
export type Copied = "kept" | "copied" | "missing" | "damaged"

type Present = "whole" | "absent" | "damaged"

const presenceIn = (to: Blobs, { blobKey, bytes, sha256 }: NamedBlob): Effect.Effect<Present, BlobUnavailable> =>
  to.open(blobKey).pipe(
    Effect.map((found) => (found.bytes === bytes && found.sha256 === sha256 ? ("whole" as const) : "damaged")),
    Effect.catchTags({
      BlobNotFound: () => Effect.succeed("absent" as const),
      BlobCorrupt: () => Effect.succeed("damaged" as const),
    }),
  )

/** Copies one file, unless it is there. The source checks the SHA-256 while it is read, and a failed copy leaves nothing. */
const copyBlob = (from: Blobs, to: Blobs, named: NamedBlob): Effect.Effect<Copied, BlobUnavailable> =>
  Effect.gen(function* () {
    const present = yield* presenceIn(to, named)
    if (present === "whole") return "kept" as const
    const { bytes, content, sha256 } = yield* from.open(named.blobKey)
    if (bytes !== named.bytes || sha256 !== named.sha256) return "damaged" as const
    // A copy that is damaged is made again. A key must be free before it is written.
    if (present === "damaged") yield* to.remove(named.blobKey)
    yield* to.put(named.blobKey, content, { maxBytes: bytes })
    return "copied" as const
  }).pipe(
    Effect.catchTags({
      BlobNotFound: () => Effect.succeed("missing" as const),
      BlobCorrupt: () => Effect.succeed("damaged" as const),
      BlobTooLarge: () => Effect.succeed("damaged" as const),
    }),
  )

/** The files that were copied, and those that could not be. */
export interface BlobCopies {
  /** All files that are there now. */
  readonly listed: ReadonlyArray<ListedBlob>
  readonly bytes: number
  readonly copied: number
  readonly copiedBytes: number
  readonly failed: ReadonlyArray<{ readonly named: NamedBlob; readonly problem: "missing" | "damaged" }>
}

/** Copies every file that these records name, unless it is there already, and reports each. */
export const copyEach = <E>(
  records: Pick<StoreInspection, "namedBlobs">,
  from: Blobs,
  to: Blobs,
  report: (named: NamedBlob, outcome: Copied) => Effect.Effect<void, E>,
): Effect.Effect<void, StoreUnavailable | BlobUnavailable | E> =>
  Stream.runDrain(
    Stream.mapEffect(
      records.namedBlobs,
      (named) => Effect.flatMap(copyBlob(from, to, named), (outcome) => report(named, outcome)),
      { concurrency: copiesAtOnce },
    ),
  )

/** Copies every file that these records name, unless it is there already. */
export const copyNamedBlobs = (
  records: Pick<StoreInspection, "namedBlobs">,
  from: Blobs,
  to: Blobs,
): Effect.Effect<BlobCopies, StoreUnavailable | BlobUnavailable> =>
  Effect.gen(function* () {
    const listed: Array<ListedBlob> = []
    const failed: Array<BlobCopies["failed"][number]> = []
    const sum = { bytes: 0, copied: 0, copiedBytes: 0 }
    yield* copyEach(records, from, to, (named, outcome) =>
      Effect.sync(() => {
        if (outcome === "missing" || outcome === "damaged") return void failed.push({ named, problem: outcome })
        const { blobKey, bytes, sha256 } = named
        listed.push({ blobKey, bytes, sha256 })
        sum.bytes += bytes
        if (outcome === "kept") return
        sum.copied += 1
        sum.copiedBytes += bytes
      }),
    )
    return { listed, failed, ...sum }
  })
