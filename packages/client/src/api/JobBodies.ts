import { Schema } from "effect"
import { errorCodes, limits, warningCodes } from "@kiln/core/domain"
import { Id, IntegerBetween, TextUpTo } from "./fieldSchemas.ts"

const UploadId = Schema.String.annotate({
  description: "`id` of an upload whose file has arrived. One upload serves one job.",
})

/** Which names there are is the operator's to configure; the served description lists them. */
const Voice = Schema.String.annotate({ identifier: "Voice", description: "One of the available voices." })

export const CreateTranscription = Schema.Struct({ upload_id: UploadId }).annotate({
  identifier: "CreateTranscription",
  examples: [{ upload_id: "upl_01k9q3w5zr8x2v6m4n7p0t1c3d" }],
})

export const CreateSpeech = Schema.Struct({
  input: TextUpTo(limits.inputCharacters).annotate({
    description: "The text to speak; counted in Unicode code points.",
  }),
  voice: Schema.optionalKey(Voice),
}).annotate({ identifier: "CreateSpeech", examples: [{ input: "Hello there.", voice: "alloy" }] })

export const CreateVoiceTurn = Schema.Struct({
  upload_id: UploadId,
  max_output_tokens: IntegerBetween(1, limits.outputTokens).annotate({ description: "Longest reply." }),
  instructions: Schema.optionalKey(TextUpTo(limits.instructionsCharacters).annotate({ description: "How to reply." })),
  voice: Schema.optionalKey(Voice),
}).annotate({
  identifier: "CreateVoiceTurn",
  examples: [{ upload_id: "upl_01k9q3w5zr8x2v6m4n7p0t1c3d", max_output_tokens: 256, instructions: "Be brief." }],
})

export const CreateImage = Schema.Struct({
  prompt: TextUpTo(limits.promptCharacters).annotate({ description: "What to draw; counted in Unicode code points." }),
  model: Schema.optionalKey(Schema.Literal("svc-image")),
}).annotate({ identifier: "CreateImage", examples: [{ prompt: "A lighthouse in the fog" }] })

const JobId = Id("job", "The job's identifier.")
const JobStatus = Schema.Literals(["queued", "processing", "done", "failed"]).annotate({
  identifier: "JobStatus",
  description: "`done` and `failed` are final. A status never goes backwards.",
})

const JobMode = Schema.Literals(["sandbox", "live"]).annotate({
  identifier: "JobMode",
  description: "The mode of the key that created it.",
})
const ErrorCode = Schema.Literals(errorCodes).annotate({
  identifier: "JobErrorCode",
  description: "Why a job failed.",
})
const WarningCode = Schema.Literals(warningCodes).annotate({
  identifier: "JobWarningCode",
  description: "What to know about a result.",
})

/** A job as it is created; a repeated request with the same Idempotency-Key gets the same body. */
const jobOf = <const Type extends string>(type: Type, identifier: string) =>
  Schema.Struct({
    id: JobId,
    object: Schema.Literal("job"),
    type: Schema.Literal(type),
    mode: JobMode,
    status: Schema.Literal("queued"),
  }).annotate({ identifier })

export const TranscriptionJob = jobOf("transcription", "TranscriptionJob")
export const SpeechJob = jobOf("speech_synthesis", "SpeechJob")
export const VoiceTurnJob = jobOf("voice_turn", "VoiceTurnJob")
export const ImageJob = jobOf("image_generation", "ImageJob")

const Amount = Schema.String.annotate({ description: "A decimal number, exact.", examples: ["0.0042"] })

const LineItem = Schema.Struct({
  meter: Schema.Literals(["input_audio_seconds", "input_characters", "output_tokens", "images"]).annotate({
    identifier: "Meter",
    description: "What is counted.",
  }),
  quantity: Schema.Int,
  unit_amount: Amount,
  amount: Amount,
}).annotate({ identifier: "LineItem" })

const Billing = Schema.Struct({
  status: Schema.Literals(["pending", "charged", "not_charged"]),
  currency: Schema.String.annotate({ description: "ISO 4217, lower case.", examples: ["usd"] }),
  amount: Schema.NullOr(Amount).annotate({ description: "`null` while pending." }),
  line_items: Schema.Array(LineItem),
}).annotate({ identifier: "Billing" })

const FileUrl = (what: string) =>
  Schema.String.annotate({ description: `${what} Signed; valid for 10 minutes from this poll.`, format: "uri" })

const AudioOutput = Schema.Struct({
  transcript: Schema.optionalKey(Schema.String.annotate({ description: "Transcription jobs." })),
  text: Schema.optionalKey(Schema.String.annotate({ description: "Voice turns: the reply as text." })),
  audio_url: Schema.optionalKey(FileUrl("Speech and voice turns: the audio file.")),
}).annotate({ identifier: "AudioOutput" })

export const AudioJobState = Schema.Struct({
  id: JobId,
  status: JobStatus,
  output: Schema.optionalKey(AudioOutput).annotate({ description: "Once done, as long as the job keeps its data." }),
  billing: Billing,
  warning_code: Schema.NullOr(WarningCode),
  error_code: Schema.NullOr(ErrorCode),
}).annotate({
  identifier: "AudioJobState",
  examples: [
    {
      id: "job_01k9q3w5zr8x2v6m4n7p0t1c3d",
      status: "done",
      output: { transcript: "Hello there." },
      billing: { status: "not_charged", currency: "usd", amount: "0", line_items: [] },
      warning_code: null,
      error_code: null,
    },
  ],
})

export const ImageJobState = Schema.Struct({
  id: JobId,
  status: JobStatus,
  output: Schema.optionalKey(
    Schema.Struct({
      format: Schema.Literal("png"),
      size: Schema.Literal("1024x1024"),
      image_url: FileUrl("The image."),
    }).annotate({ identifier: "ImageOutput" }),
  ).annotate({ description: "Once done, as long as the job keeps its data." }),
  error_code: Schema.optionalKey(ErrorCode),
  warning_code: Schema.optionalKey(Schema.Literals(["data_expired", "data_deleted"])).annotate({
    description: "Once the job's data is gone.",
  }),
}).annotate({
  identifier: "ImageJobState",
  examples: [{ id: "job_01k9q3w5zr8x2v6m4n7p0t1c3d", status: "processing" }],
})
