export const openAiEndpoints = ["transcription", "speech", "chat", "responses", "image", "imageFile", "models"] as const

/**
 * `transcription` POST /v1/audio/transcriptions · `speech` POST /v1/audio/speech · `chat` POST /v1/chat/completions ·
 * `responses` POST /v1/responses · `image` POST /v1/images/generations · `imageFile` GET of an image by its URL ·
 * `models` GET /v1/models.
 */
export type OpenAiEndpoint = (typeof openAiEndpoints)[number]

/** A received file, without its bytes. */
export interface ReceivedFile {
  readonly filename: string
  readonly contentType: string
  readonly bytes: number
  /** Digest in hexadecimal. */
  readonly sha256: string
  /** Duration by its samples if it is a WAV; otherwise unknown. */
  readonly seconds?: number
}

export interface ReceivedMessage {
  readonly role: string
  /** The joined text parts. */
  readonly text: string
}

/** The request of a call. `fields` contains everything sent, including fields that the stand-in ignores. */
export interface OpenAiRequests {
  readonly transcription: {
    readonly file: ReceivedFile
    readonly model: string
    readonly responseFormat: string
    readonly fields: Readonly<Record<string, ReadonlyArray<string>>>
  }
  readonly speech: {
    readonly model: string
    readonly input: string
    readonly voice: string
    readonly responseFormat: string
    readonly fields: JsonFields
  }
  readonly chat: TextRequest
  readonly responses: TextRequest
  readonly image: {
    readonly model: string
    readonly prompt: string
    readonly size: string
    readonly count: number
    readonly responseFormat: "b64_json" | "url"
    readonly fields: JsonFields
  }
  readonly imageFile: { readonly name: string }
  readonly models: { readonly path: string }
}

export type JsonFields = Readonly<Record<string, unknown>>

export interface TextRequest {
  readonly model: string
  /** System, developer and user messages in order; `instructions` come first, as a system message. */
  readonly messages: ReadonlyArray<ReceivedMessage>
  readonly maxOutputTokens?: number
  readonly fields: JsonFields
}

/** The answer of an endpoint; omitted fields have the usual values. */
export interface OpenAiAnswers {
  readonly transcription: {
    readonly text?: string
    /** The reported duration, if the response format includes one. */
    readonly seconds?: number
    /** English name of the language, as the service writes it: `english`. */
    readonly language?: string
  }
  readonly speech: GivenFile
  readonly chat: GivenText
  readonly responses: GivenText
  readonly image: GivenImage
  readonly imageFile: GivenFile
  readonly models: { readonly models: ReadonlyArray<string> }
}

export interface GivenFile {
  readonly data: Uint8Array
  /** Default: the media type of the requested format. */
  readonly mediaType?: string
}

export interface GivenImage {
  /** Sent as base64, even if a URL was requested. See `imageFile` for the content of the stand-in's URLs. */
  readonly data?: Uint8Array
  /** A URL to fetch it from instead. */
  readonly url?: string
}

export interface GivenText {
  /** Truncated at the token limit like the usual text; one word is one token. */
  readonly text?: string
  /** The reported usage. */
  readonly outputTokens?: number
  /** Default: `length` if truncated by the limit, otherwise `stop`. */
  readonly finishReason?: "stop" | "length" | "content_filter"
  /** Text of the model's refusal, in its separate field. */
  readonly refusal?: string
}
