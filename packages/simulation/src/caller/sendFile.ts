import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { UploadId } from "@kiln/core/domain"
import { type CallerContext, digest } from "./CallerContext.ts"

/** The beginning of a WAV file, which is all that is looked at. */
const wavHeader = new TextEncoder().encode("RIFF0000WAVEfmt ")

/** Announces a file and sends it, sometimes twice concurrently; returns `undefined` if that failed. */
export const sendFile = (caller: CallerContext) =>
  Effect.gen(function* () {
    const { dice } = caller.kernel
    const upload = yield* caller.insist("createUpload", (engine) =>
      engine.createUpload(caller.principal, { format: "wav", declaredSeconds: 3 }),
    )
    const bodies = dice.chance(0.2) ? [1, 2] : [1]
    const outcomes = yield* Effect.forEach(
      bodies,
      () => {
        const body = wavBody(`${upload.id} ${dice.between(0, 1_000_000)}`, dice.between(1, 4))
        return Effect.map(put(caller, upload.id, body), (outcome) => ({ body, outcome }))
      },
      { concurrency: "unbounded" },
    )
    const [winner, ...others] = outcomes.filter(({ outcome }) => outcome === "stored")
    if (others.length > 0) caller.kernel.violate("one URL, one successful PUT", upload.id)
    const file = caller.watch.uploads.get(upload.id)
    if (
      winner !== undefined &&
      file?.file !== null &&
      file?.file !== undefined &&
      file.file.sha256 !== digest(winner.body)
    )
      caller.kernel.violate("the stored bytes are the body of the successful PUT", upload.id)
    return outcomes.some(({ outcome }) => outcome !== "gone") ? upload.id : undefined
  })

/** Sends one body until it is known to have arrived or cannot any more. */
const put = (
  caller: CallerContext,
  uploadId: UploadId,
  body: ReadonlyArray<Uint8Array>,
): Effect.Effect<"stored" | "somebody's" | "gone"> => {
  const { dice } = caller.kernel
  const once = caller.door.ask(caller.process, `PUT ${uploadId}`, (engine) =>
    engine.receiveUpload({
      uploadId,
      contentType: "audio/wav",
      contentLength: undefined,
      content: Stream.mapEffect(Stream.fromIterable(body), (chunk) =>
        Effect.as(Effect.sleep(dice.chance(0.02) ? 60_000 : dice.between(0, 1_500)), chunk),
      ),
    }),
  )
  return once.pipe(
    Effect.as("stored" as const),
    Effect.catchTags({
      UploadAlreadyCompleted: () => Effect.succeed("somebody's" as const),
      UploadExpired: () => Effect.succeed("gone" as const),
      UploadNotFound: () => Effect.succeed("gone" as const),
    }),
    Effect.retry({ schedule: Schedule.spaced("1 second") }),
    Effect.orDie,
  )
}

const wavBody = (text: string, parts: number): ReadonlyArray<Uint8Array> => [
  wavHeader,
  ...Array.from({ length: parts }, (_, n) => new TextEncoder().encode(`${text} ${n}`)),
]
