/** Model names that each kind of job accepts. The installation's provider decides which model runs. */
const aliases = {
  speech_synthesis: ["speech_synthesis", "svc-audio", "gpt-4o-mini-tts", "tts-1", "tts-1-hd"],
  transcription: ["transcription", "svc-audio", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1"],
  image_generation: ["image_generation", "svc-image", "gpt-image-1", "gpt-image-1-mini", "dall-e-2", "dall-e-3"],
} as const

export type OpenAiKind = keyof typeof aliases

/** The name of the provider's own model for each kind. */
export type ModelNames = { readonly [Kind in OpenAiKind]?: string | null | undefined }

/** Returns the values of `model` for a kind of job: the aliases, and the name of the provider's own model. */
export const modelsOf = ({ models }: { readonly models?: ModelNames }, kind: OpenAiKind): ReadonlyArray<string> => {
  const configured = models?.[kind]
  return configured === undefined || configured === null || aliases[kind].some((alias) => alias === configured)
    ? aliases[kind]
    : [...aliases[kind], configured]
}

export const openAiKinds = Object.keys(aliases) as ReadonlyArray<OpenAiKind>
