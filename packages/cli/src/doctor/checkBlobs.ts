import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { NamedBlob, StoreInspection } from "@kiln/core/ports"
import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"
import { ageText, type Check, counted, type Finding, ok, problem, warning } from "./Check.ts"

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

const name = "blobs"

/** Verifies every blob that a committed row names, or as many as it can within the limit. */
export const checkBlobs = (
  store: StoreInspection,
  limitMs: number,
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
    const all = Stream.runDrain(Stream.mapEffect(store.namedBlobs, verify, { concurrency: readAtOnce }))
    const isComplete = Option.isSome(yield* Effect.timeoutOption(all, limitMs))
    const count = `${counted(verified, "file")}${isComplete ? "" : ` (the others were not read within ${ageText(limitMs)})`}`
    if (findings.length > 0)
      return problem(name, {
        summary: `${faulty} of ${count} cannot be served`,
        remedy:
          "restore them from a backup of the files, each to the path that it has there (in a directory, and in one of kiln backup, " +
          "the key jobs/ID/1/audio is blobs/jobs/shard-*/ID.1.audio.blob, or blobs/jobs/ID/1/audio.blob from an older version)",
        findings,
      })
    return isComplete
      ? ok(name, `${count} verified`)
      : warning(name, { summary: `${count} verified`, remedy: "kiln doctor --limit 2h" })
  })
