// Written by `pnpm openapi` from the declarations in ./api, which this file repeats as plain types and data: a program
// without Effect needs neither its types nor its code. A test compares the two.

/** The container format of the file. */
export type AudioFormat = "mp3" | "mp4" | "wav" | "webm" | "m4a"

export interface AudioJobState {
  /** The job's identifier. */
  readonly id: string
  readonly status: JobStatus
  readonly output?: AudioOutput
  readonly billing: Billing
  readonly warning_code: JobWarningCode | null
  readonly error_code: JobErrorCode | null
}

/** Present once the job is done, until its data is deleted. */
export interface AudioOutput {
  /** Transcription jobs: the transcript of the audio. */
  readonly transcript?: string
  /** Speech synthesis and voice turn jobs: the audio file. A signed URL, valid for 10 minutes after this poll. */
  readonly audio_url?: string
  /** Voice turn jobs: the text of the reply. */
  readonly text?: string
}

export interface Billing {
  readonly status: "pending" | "charged" | "not_charged"
  /** ISO 4217 code in lower case. */
  readonly currency: string
  /** The total; `null` while the status is `pending`. */
  readonly amount: string | null
  readonly line_items: ReadonlyArray<LineItem>
}

export interface CreateImage {
  /** A description of the image. Its length is counted in Unicode code points. */
  readonly prompt: string
  readonly model?: "svc-image"
}

export interface CreateSpeech {
  /** The text to speak. Its length is counted in Unicode code points. */
  readonly input: string
  readonly voice?: Voice
}

export interface CreateTranscription {
  /** The `id` of an upload whose file has been sent. An upload can be used by one job only. */
  readonly upload_id: string
}

export interface CreateUpload {
  readonly format: AudioFormat
  /** The length of the audio in seconds. Live jobs are billed by the measured length. */
  readonly declared_seconds: number
}

export interface CreateVoiceTurn {
  /** The `id` of an upload whose file has been sent. An upload can be used by one job only. */
  readonly upload_id: string
  /** Maximum length of the reply, in tokens. */
  readonly max_output_tokens: number
  /** Instructions for the reply, such as its tone or length. */
  readonly instructions?: string
  readonly voice?: Voice
}

export interface FieldProblem {
  /** The name of the field in the request. */
  readonly param: string
  readonly reason:
    | "required"
    | "type"
    | "enum"
    | "min"
    | "max"
    | "max_length"
    | "empty"
    | "characters"
    | "unknown_field"
  readonly message: string
  readonly min?: number
  readonly exclusive_min?: number
  readonly max?: number
  readonly max_length?: number
  readonly allowed?: ReadonlyArray<string>
}

export interface ImageJob {
  /** The job's identifier. */
  readonly id: string
  readonly object: "job"
  readonly type: "image_generation"
  readonly mode: JobMode
  readonly status: "queued"
}

export interface ImageJobState {
  /** The job's identifier. */
  readonly id: string
  readonly status: JobStatus
  readonly output?: ImageOutput
  readonly error_code?: JobErrorCode
  /** Present once the job's data has been deleted. */
  readonly warning_code?: "data_expired" | "data_deleted"
}

/** Present once the job is done, until its data is deleted. */
export interface ImageOutput {
  readonly format: "png"
  readonly size: "1024x1024"
  /** The image. A signed URL, valid for 10 minutes after this poll. */
  readonly image_url: string
}

/** Why a job failed. */
export type JobErrorCode =
  | "audio_unreadable"
  | "audio_too_long"
  | "audio_too_short"
  | "content_rejected"
  | "provider_rejected"
  | "provider_unavailable"
  | "result_invalid"
  | "job_timeout"
  | "queue_timeout"
  | "attempts_exhausted"
  | "prerequisite_failed"
  | "not_accepted"
  | "canceled_by_operator"
  | "internal_error"

/** The mode of the key that created the job. */
export type JobMode = "sandbox" | "live"

/** The status of the job. `done` and `failed` are final. A status never moves backwards. */
export type JobStatus = "queued" | "processing" | "done" | "failed"

/** A warning about the result. */
export type JobWarningCode =
  | "duration_mismatch"
  | "no_speech_detected"
  | "output_truncated"
  | "data_expired"
  | "data_deleted"

export interface LineItem {
  readonly meter: Meter
  readonly quantity: number
  /** An exact decimal number. */
  readonly unit_amount: string
  /** An exact decimal number. */
  readonly amount: string
}

/** The unit that is counted. */
export type Meter = "input_audio_seconds" | "input_characters" | "output_tokens" | "images"

export interface SpeechJob {
  /** The job's identifier. */
  readonly id: string
  readonly object: "job"
  readonly type: "speech_synthesis"
  readonly mode: JobMode
  readonly status: "queued"
}

export interface TranscriptionJob {
  /** The job's identifier. */
  readonly id: string
  readonly object: "job"
  readonly type: "transcription"
  readonly mode: JobMode
  readonly status: "queued"
}

export interface Upload {
  /** The upload's identifier, for `upload_id` of the job that uses the file. */
  readonly id: string
  /** A signed URL. Send the file here with PUT, without Authorization. It is valid for one upload and for 15 minutes. */
  readonly upload_url: string
  readonly method: "PUT"
  /** The time until which a transfer may start. */
  readonly expires_at: string
  /** Maximum size of the file in bytes, inclusive. */
  readonly max_bytes: number
}

/** One of the available voices. */
export type Voice = string

export interface VoiceTurnJob {
  /** The job's identifier. */
  readonly id: string
  readonly object: "job"
  readonly type: "voice_turn"
  readonly mode: JobMode
  readonly status: "queued"
}

/** The built-in kinds, by the `type` of their jobs. */
export interface BuiltInJobs {
  readonly transcription: {
    readonly methods: "transcriptions"
    readonly request: CreateTranscription
    readonly job: TranscriptionJob
    readonly state: Omit<AudioJobState, "output"> & {
      /** Once done, as long as the job keeps its data. */
      readonly output?: Required<Pick<NonNullable<AudioJobState["output"]>, "transcript">>
    }
    readonly upload: "upload_id"
  }
  readonly speech_synthesis: {
    readonly methods: "speech"
    readonly request: CreateSpeech
    readonly job: SpeechJob
    readonly state: Omit<AudioJobState, "output"> & {
      /** Once done, as long as the job keeps its data. */
      readonly output?: Required<Pick<NonNullable<AudioJobState["output"]>, "audio_url">>
    }
    readonly upload: never
  }
  readonly voice_turn: {
    readonly methods: "voiceTurns"
    readonly request: CreateVoiceTurn
    readonly job: VoiceTurnJob
    readonly state: Omit<AudioJobState, "output"> & {
      /** Once done, as long as the job keeps its data. */
      readonly output?: Required<Pick<NonNullable<AudioJobState["output"]>, "text" | "audio_url">>
    }
    readonly upload: "upload_id"
  }
  readonly image_generation: {
    readonly methods: "images"
    readonly request: CreateImage
    readonly job: ImageJob
    readonly state: Omit<ImageJobState, "output"> & {
      /** Once done, as long as the job keeps its data. */
      readonly output?: Required<Pick<NonNullable<ImageJobState["output"]>, "format" | "size" | "image_url">>
    }
    readonly upload: never
  }
}

/** The routes of the built-in kinds. */
export const wireRoutes = [
  {
    kind: { name: "transcription" },
    path: "/v1/audio/transcriptions",
    family: { noun: "Audio", poll: "/v1/jobs/:id" },
    noun: "Transcription",
    methods: "transcriptions",
    upload: "upload_id",
  },
  {
    kind: { name: "speech_synthesis" },
    path: "/v1/audio/speech",
    family: { noun: "Audio", poll: "/v1/jobs/:id" },
    noun: "Speech",
    methods: "speech",
  },
  {
    kind: { name: "voice_turn" },
    path: "/v1/voice/turns",
    family: { noun: "Audio", poll: "/v1/jobs/:id" },
    noun: "VoiceTurn",
    methods: "voiceTurns",
    upload: "upload_id",
  },
  {
    kind: { name: "image_generation" },
    path: "/v1/images/generations",
    family: { noun: "Image", poll: "/v1/images/jobs/:id" },
    noun: "Image",
    methods: "images",
  },
] as const
