/** The limits of the public contract that clients should know beforehand. The engine enforces its own; a test keeps them equal. */
export const limits = {
  /** Seconds an uploaded file may be declared to last. */
  declaredSeconds: 900,
  /** Bytes of an uploaded file, inclusive. */
  uploadBytes: 26_214_400,
  /** Unicode code points. */
  inputCharacters: 4_096,
  instructionsCharacters: 4_096,
  promptCharacters: 4_000,
  outputTokens: 1_024,
} as const

/** The public names of the voices, unless the operator configures others. */
export const defaultVoiceNames: ReadonlyArray<string> = ["alloy", "echo", "fable", "nova", "onyx", "shimmer"]
