import * as Schema from "effect/Schema"
import { audioFormats, limits } from "@kiln/core/domain"
import { Id, PositiveUpTo } from "./fieldSchemas.ts"

export const CreateUpload = Schema.Struct({
  format: Schema.Literals(audioFormats).annotate({
    identifier: "AudioFormat",
    description: "The container format of the file.",
  }),
  declared_seconds: PositiveUpTo(limits.declaredSeconds).annotate({
    description: "The length of the audio in seconds. Live jobs are billed by the measured length.",
  }),
}).annotate({ identifier: "CreateUpload", examples: [{ format: "wav", declared_seconds: 12.5 }] })

export const Upload = Schema.Struct({
  id: Id("upl", "The upload's identifier, for `upload_id` of the job that uses the file."),
  upload_url: Schema.String.annotate({
    description:
      "A signed URL. Send the file here with PUT, without Authorization. It is valid for one upload and for 15 minutes.",
    format: "uri",
  }),
  method: Schema.Literal("PUT"),
  expires_at: Schema.String.annotate({
    description: "The time until which a transfer may start.",
    format: "date-time",
    examples: ["2030-01-01T12:00:00Z"],
  }),
  max_bytes: Schema.Int.annotate({
    description: "Maximum size of the file in bytes, inclusive.",
    examples: [limits.uploadBytes],
  }),
}).annotate({ identifier: "Upload" })
