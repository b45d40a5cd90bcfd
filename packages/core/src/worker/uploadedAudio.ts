import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { BlobCorrupt } from "../domain/index.ts"
import { openNamed } from "../engine/openNamed.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { measureUpload } from "../kinds/uploadedAudio.ts"
import type { BlobStore, Claim } from "../ports/index.ts"

/** Returns the job's upload with its measured duration. */
export const uploadedAudio = ({ job, upload }: Claim, blobs: BlobStore["Service"]) =>
  Effect.suspend(() => {
    const file = upload?.file
    if (upload === null || file === null || file === undefined)
      return Effect.die(new KindBug(`a job of ${job.kind} has no uploaded file`))
    const content = Stream.unwrap(Effect.map(openNamed(blobs, file), (blob) => blob.content)).pipe(
      // A row names the blob, so a missing blob is damage.
      Stream.catchTag("BlobNotFound", ({ key }) => Stream.fail(new BlobCorrupt({ key }))),
    )
    return measureUpload(upload, { bytes: file.bytes, content })
  })
