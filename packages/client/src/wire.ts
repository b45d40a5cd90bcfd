// Written by `pnpm openapi` from the declarations in ./api, which this file repeats as plain types and data: a program
// without Effect needs neither its types nor its code. A test compares the two.

/** The container of the file. */
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

/** Once done, as long as the job keeps its data. */
export interface AudioOutput {
  /** Transcription jobs: what was said. */
  readonly transcript?: string
  /** Speech synthesis and voice turn jobs: the audio file. Signed; valid for 10 minutes from this poll. */
  readonly audio_url?: string
  /** Voice turn jobs: the reply as text. */
  readonly text?: string
}

export interface Billing {
  readonly status: "pending" | "charged" | "not_charged"
  /** ISO 4217, lower case. */
  readonly currency: string
  /** `null` while pending. */
  readonly amount: string | null
  readonly line_items: ReadonlyArray<LineItem>
}

export interface CreateImage {
  /** What to draw; counted in Unicode code points. */
  readonly prompt: string
  readonly model?: "svc-image"
}

export interface CreateSpeech {
  /** The text to speak; counted in Unicode code points. */
  readonly input: string
  readonly voice?: Voice
}

export interface CreateTranscription {
  /** `id` of an upload whose file has arrived. One upload serves one job. */
  readonly upload_id: string
}

export interface CreateUpload {
  readonly format: AudioFormat
  /** How long the file lasts. A declaration: live jobs are billed by what is measured. */
  readonly declared_seconds: number
}

export interface CreateVoiceTurn {
  /** `id` of an upload whose file has arrived. One upload serves one job. */
  readonly upload_id: string
  /** Longest reply. */
  readonly max_output_tokens: number
  /** How to reply. */
  readonly instructions?: string
  readonly voice?: Voice
}

export interface FieldProblem {
  /** The field, as it was named in the request. */
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
  /** Once the job's data is gone. */
  readonly warning_code?: "data_expired" | "data_deleted"
}

/** Once done, as long as the job keeps its data. */
export interface ImageOutput {
  readonly format: "png"
  readonly size: "1024x1024"
  /** The image. Signed; valid for 10 minutes from this poll. */
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
  | "canceled_by_operator"
  | "internal_error"

/** The mode of the key that created it. */
export type JobMode = "sandbox" | "live"

/** `done` and `failed` are final. A status never goes backwards. */
export type JobStatus = "queued" | "processing" | "done" | "failed"

/** What to know about a result. */
export type JobWarningCode =
  | "duration_mismatch"
  | "no_speech_detected"
  | "output_truncated"
  | "data_expired"
  | "data_deleted"

export interface LineItem {
  readonly meter: Meter
  readonly quantity: number
  /** A decimal number, exact. */
  readonly unit_amount: string
  /** A decimal number, exact. */
  readonly amount: string
}

/** What is counted. */
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
  /** Goes into `upload_id` of the one job that uses the file. */
  readonly id: string
  /** Signed: send the bytes here with PUT, without Authorization. Good for one upload, for 15 minutes. */
  readonly upload_url: string
  readonly method: "PUT"
  /** Until when a transfer may begin. */
  readonly expires_at: string
  /** Largest file, inclusive. */
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

/** Where the built-in kinds are offered. */
export const builtInRoutes = [
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
