export const openAiEndpoints = ["transcription", "speech", "chat", "responses", "image", "imageFile", "models"] as const

/**
 * `transcription` POST /v1/audio/transcriptions · `speech` POST /v1/audio/speech · `chat` POST /v1/chat/completions ·
 * `responses` POST /v1/responses · `image` POST /v1/images/generations · `imageFile` GET of an image by its URL ·
 * `models` GET /v1/models.
 */
export type OpenAiEndpoint = (typeof openAiEndpoints)[number]

/** A file that came in. Its bytes are not kept. */
export interface ReceivedFile {
  readonly filename: string
  readonly contentType: string
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
  /** By its samples where it is a WAV; unknown otherwise. */
  readonly seconds?: number
}

export interface ReceivedMessage {
  readonly role: string
  /** Its text parts, joined. */
  readonly text: string
}

/** What a call asked for. `fields` is everything that was sent, also what the stand-in does not look at. */
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
  /** System, developer and user messages in their order; `instructions` come first, as a system message. */
  readonly messages: ReadonlyArray<ReceivedMessage>
  readonly maxOutputTokens?: number
  readonly fields: JsonFields
}

/** What an endpoint may be told to answer; what is left out is as usual. */
export interface OpenAiAnswers {
  readonly transcription: {
    readonly text?: string
    /** What the answer says of the length, where its format says any. */
    readonly seconds?: number
    /** A name in English, as the service writes it: `english`. */
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
  /** By default the one of the format that was asked for. */
  readonly mediaType?: string
}

export interface GivenImage {
  /** Goes as base64, also where a URL was asked for; see `imageFile` for what is behind the stand-in's own URLs. */
  readonly data?: Uint8Array
  /** Any other place to fetch it from. */
  readonly url?: string
}

export interface GivenText {
  /** Cut at the token limit like the usual text, one word being one token. */
  readonly text?: string
  /** What the usage claims. */
  readonly outputTokens?: number
  /** Why it ended: by default `length` where the limit cut it, else `stop`. */
  readonly finishReason?: "stop" | "length" | "content_filter"
  /** The model refuses in these words, in the place that is made for them. */
  readonly refusal?: string
}
