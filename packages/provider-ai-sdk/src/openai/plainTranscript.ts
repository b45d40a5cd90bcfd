import { isAnswer, rewriteJson } from "./rewriteJson.ts"

/**
 * Keeps only the fields of a transcript that are used. The AI SDK rejects the whole response if a segment lacks one of ten
 * fields, as with whisper.cpp and LocalAI, or if the duration is a string, as OpenAI long documented it.
 */
export const plainTranscript = (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  rewriteJson(fetch, ({ text, duration, usage }) => ({
    text,
    duration: typeof duration === "string" ? finiteOrNull(duration) : typeof duration === "number" ? duration : null,
    ...(isAnswer(usage) ? { usage } : {}),
  }))

const finiteOrNull = (text: string): number | null =>
  text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null
