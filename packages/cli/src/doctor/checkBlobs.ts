import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { NamedBlob, StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"
import { type Check, counted, type Finding, wellUnless } from "./Check.ts"

const readAtOnce = 4
/** Maximum number of listed findings; others are only counted. */
const mostFindings = 1_000

type Fault = "missing" | "damaged" | "different"

const said: Readonly<Record<Fault, string>> = {
  missing: "its blob is missing",
  damaged: "its blob is damaged: the content differs from what was written",
  different: "its blob is not the committed one",
}

/** Reads a blob to its end. The port fails before the last piece if length or SHA-256 do not match. */
const faultOf = (named: NamedBlob): Effect.Effect<Fault | undefined, BlobUnavailable, BlobStore> =>
  Effect.gen(function* () {
    const { bytes, content, sha256 } = yield* (yield* BlobStore).open(named.blobKey)
    if (bytes !== named.bytes || sha256 !== named.sha256) return "different" as const
    yield* Stream.runDrain(content)
    return undefined
  }).pipe(
    Effect.catchTags({
      BlobNotFound: () => Effect.succeed("missing" as const),
      BlobCorrupt: () => Effect.succeed("damaged" as const),
    }),
  )

const findingOf = ({ blobKey, id }: NamedBlob, fault: Fault): Finding => ({
  message: `${id}: ${said[fault]} (${blobKey})`,
  details: { [id.startsWith("upl_") ? "upload_id" : "file_id"]: id, blob_key: blobKey, problem: fault },
})

/** Verifies every blob referenced by a committed row. */
export const checkBlobs = (
  store: StoreInspection,
): Effect.Effect<Check, StoreUnavailable | BlobUnavailable, BlobStore> =>
  Effect.gen(function* () {
    let verified = 0
    let faulty = 0
    const findings: Array<Finding> = []
    const verify = Effect.fnUntraced(function* (named: NamedBlob) {
      const fault = yield* faultOf(named)
      verified++
      // If it was erased since its row was read, it must be gone.
      if (fault === undefined || !(yield* store.isNamed(named))) return
      faulty++
      if (findings.length < mostFindings) findings.push(findingOf(named, fault))
    })
    yield* Stream.runDrain(Stream.mapEffect(store.namedBlobs, verify, { concurrency: readAtOnce }))
    return wellUnless("blobs", findings, {
      well: `${counted(verified, "file")} verified`,
      problem: `${faulty} of ${counted(verified, "file")} cannot be served: restore them from a backup`,
    })
  })
