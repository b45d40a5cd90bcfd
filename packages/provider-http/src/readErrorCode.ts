/** `code` and `type` of an error, unjudged. */
export interface ReportedCode {
  readonly code?: unknown
  readonly type?: unknown
}

/**
 * Finds them in the body of an answer: `{"error": {"code", "type"}}` as OpenAI does, flat as vLLM does, `status` in place
 * of a code as Google does, under `detail` as ElevenLabs does. A body that is none of these has none.
 */
export const readErrorCode = (body: string | undefined): ReportedCode => {
  try {
    const answer: unknown = JSON.parse(body ?? "")
    const error = [field(answer, "error"), field(answer, "detail"), answer].find(isObject)
    const inner = field(field(error, "innererror"), "code")
    const code = [inner, field(error, "code"), field(error, "status")].find((value) => typeof value === "string")
    return { code, type: field(error, "type") }
  } catch {
    return {}
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const field = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
