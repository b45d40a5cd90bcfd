/** A JSON object as it came. */
export type Answer = Readonly<Record<string, unknown>>

/**
 * A fetch whose successful answers in JSON are rewritten before the AI SDK sees them. An answer that is no JSON object is
 * left as it is, for the AI SDK to refuse.
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
    // Of the answer as it was sent.
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
