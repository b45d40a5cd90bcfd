/** The service's limits for requests. The job kinds enforce them, and the OpenAPI document lists them. */
export const limits = {
  /** Maximum declared duration of an upload, in seconds. */
  declaredSeconds: 900,
  /**
   * Bounds of an uploaded file's measured duration, in seconds. The maximum is higher than the declared one, because measuring
   * may give slightly more.
   */
  minMeasuredSeconds: 0.1,
  maxMeasuredSeconds: 901,
  /** Bytes of an uploaded file, inclusive: 25 MiB. */
  uploadBytes: 26_214_400,
  /** Maximum length of text to speak, in Unicode code points. */
  inputCharacters: 4_096,
  /** Unicode code points. */
  instructionsCharacters: 4_096,
  /** Unicode code points. */
  promptCharacters: 4_000,
  /**
   * Maximum JSON length, in characters, of a request, a checkpoint or an output of a custom kind. Larger results belong in files.
   */
  kindJsonLength: 4_194_304,
  outputTokens: 1_024,
  /** Pixels, width and height of a generated image. */
  imageSize: 1_024,
} as const

/** The default public names of the voices; the operator can configure others. The first is the default voice. */
export const defaultVoiceNames = ["alloy", "echo", "fable", "nova", "onyx", "shimmer"] as const
