/** `code` and `type` of an error, unvalidated. */
export interface ReportedCode {
  readonly code?: unknown
  readonly type?: unknown
}

/**
 * Reads the code from the body of an error response: `{"error": {"code", "type"}}` as in OpenAI, flat as in vLLM, `status`
 * instead of a code as in Google, under `detail` as in ElevenLabs. Returns no code for any other body.
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
