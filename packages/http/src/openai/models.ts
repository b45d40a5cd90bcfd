/** Model names that each kind of job accepts. The installation's provider decides which model runs. */
export const models = {
  speech_synthesis: ["speech_synthesis", "svc-audio", "gpt-4o-mini-tts", "tts-1", "tts-1-hd"],
  transcription: ["transcription", "svc-audio", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1"],
  image_generation: ["image_generation", "svc-image", "gpt-image-1", "gpt-image-1-mini", "dall-e-2", "dall-e-3"],
} as const

export type OpenAiKind = keyof typeof models
