/** A JSON object as received. */
export type Answer = Readonly<Record<string, unknown>>

/**
 * Wraps a fetch and rewrites successful JSON responses before the AI SDK sees them. A response that is not a JSON object
 * is left unchanged, for the AI SDK to reject.
 */
export const rewriteJson =
  (
    fetch: typeof globalThis.fetch,
    rewrite: (answer: Answer, signal: AbortSignal | undefined) => Answer | Promise<Answer>,
  ): typeof globalThis.fetch =>
  async (input, init) => {
    const response = await fetch(input, init)
    if (!response.ok || response.body === null) return response
    const text = await response.text()
    const answer = parse(text)
    const headers = new Headers(response.headers)
    // These headers describe the original body.
    for (const name of ["content-length", "content-encoding", "transfer-encoding"]) headers.delete(name)
    const body = isAnswer(answer) ? JSON.stringify(await rewrite(answer, init?.signal ?? undefined)) : text
    return new Response(body, { status: response.status, headers })
  }

export const isAnswer = (value: unknown): value is Answer =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
