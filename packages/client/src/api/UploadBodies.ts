import * as Schema from "effect/Schema"
import { audioFormats, limits } from "@kiln/core/domain"
import { Id, PositiveUpTo } from "./fieldSchemas.ts"

export const CreateUpload = Schema.Struct({
  format: Schema.Literals(audioFormats).annotate({
    identifier: "AudioFormat",
    description: "The container of the file.",
  }),
  declared_seconds: PositiveUpTo(limits.declaredSeconds).annotate({
    description: "How long the file lasts. A declaration: live jobs are billed by what is measured.",
  }),
}).annotate({ identifier: "CreateUpload", examples: [{ format: "wav", declared_seconds: 12.5 }] })

export const Upload = Schema.Struct({
  id: Id("upl", "Goes into `upload_id` of the one job that uses the file."),
  upload_url: Schema.String.annotate({
    description: "Signed: send the bytes here with PUT, without Authorization. Good for one upload, for 15 minutes.",
    format: "uri",
  }),
  method: Schema.Literal("PUT"),
  expires_at: Schema.String.annotate({
    description: "Until when a transfer may begin.",
    format: "date-time",
    examples: ["2030-01-01T12:00:00Z"],
  }),
  max_bytes: Schema.Int.annotate({ description: "Largest file, inclusive.", examples: [limits.uploadBytes] }),
}).annotate({ identifier: "Upload" })
