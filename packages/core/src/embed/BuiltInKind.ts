import type { FileRef, Kind } from "../kinds/KindTypes.ts"

/** An uploaded audio file in, its transcript out. */
export type TranscriptionKind = Kind<
  "transcription",
  {
    readonly input: { readonly uploadId: string }
    readonly request: { readonly uploadId: string }
    readonly output: { readonly transcript: string }
    readonly needs: { readonly all: "transcription"; readonly or: never }
  }
>

/** Text in, at most 4,096 characters; speech out. */
export interface SpeechRequest {
  readonly input: string
  readonly voice?: string
}
export type SpeechSynthesisKind = Kind<
  "speech_synthesis",
  {
    readonly input: SpeechRequest
    readonly request: SpeechRequest
    readonly output: { readonly audio: FileRef }
    readonly needs: { readonly all: "speech"; readonly or: never }
  }
>

/** Audio in; text, of at most 1,024 tokens, and voice out. */
export interface VoiceTurnRequest {
  readonly uploadId: string
  readonly maxOutputTokens: number
  readonly instructions?: string
  readonly voice?: string
}
export type VoiceTurnKind = Kind<
  "voice_turn",
  {
    readonly input: VoiceTurnRequest
    readonly request: VoiceTurnRequest
    readonly output: { readonly text: string; readonly audio: FileRef }
    readonly needs: { readonly all: "transcription" | "reply" | "speech"; readonly or: "voiceTurn" }
  }
>

/** A prompt in, at most 4,000 characters; a PNG of 1024 by 1024 pixels out. */
export interface ImageRequest {
  readonly prompt: string
  readonly model?: string
}
export type ImageGenerationKind = Kind<
  "image_generation",
  {
    readonly input: ImageRequest
    readonly request: ImageRequest
    readonly output: { readonly format: "png"; readonly size: string; readonly image: FileRef }
    readonly needs: { readonly all: "image"; readonly or: never }
  }
>

/** The four kinds of the service. */
export type BuiltInKind = TranscriptionKind | SpeechSynthesisKind | VoiceTurnKind | ImageGenerationKind
