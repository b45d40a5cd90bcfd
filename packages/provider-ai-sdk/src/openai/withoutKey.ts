/** Removes the `Authorization` that the AI SDK always sends, because a server without keys may reject a wrong one. */
export const withoutKey =
  (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers)
    headers.delete("authorization")
    return fetch(input, { ...init, headers })
  }
