/** The limits of the service that callers should know beforehand. Enforced by the job kinds, shown in the API's description. */
export const limits = {
  /** Seconds an upload may be declared to last. */
  declaredSeconds: 900,
  /** Seconds an uploaded file may really last: one declared at exactly the limit may measure a little more. */
  minMeasuredSeconds: 0.1,
  maxMeasuredSeconds: 901,
  /** Bytes of an uploaded file, inclusive: 25 MiB. */
  uploadBytes: 26_214_400,
  /** Unicode code points of text to speak. */
  inputCharacters: 4_096,
  /** Unicode code points. */
  instructionsCharacters: 4_096,
  /** Unicode code points. */
  promptCharacters: 4_000,
  /** Characters of JSON of a request, a checkpoint or an output of a kind of one's own: files are for what is larger. */
  kindJsonLength: 4_194_304,
  outputTokens: 1_024,
  /** Pixels, width and height of a generated image. */
  imageSize: 1_024,
} as const

/** The public names of the voices, unless the operator configures others; the first is the default. */
export const defaultVoiceNames = ["alloy", "echo", "fable", "nova", "onyx", "shimmer"] as const
