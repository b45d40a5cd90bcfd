import { isAnswer, rewriteJson } from "./rewriteJson.ts"

/**
 * Keeps of a transcript what is used. The AI SDK refuses the whole answer when one segment lacks one of ten fields, which
 * those of whisper.cpp and LocalAI do, and when the duration is a text, as OpenAI has long documented it.
 */
export const plainTranscript = (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  rewriteJson(fetch, ({ text, duration, usage }) => ({
    text,
    duration: typeof duration === "string" ? finiteOrNull(duration) : typeof duration === "number" ? duration : null,
    ...(isAnswer(usage) ? { usage } : {}),
  }))

const finiteOrNull = (text: string): number | null =>
  text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null
