/** The AI SDK always sends an `Authorization`; a server that wants no key may well refuse a wrong one. */
export const withoutKey =
  (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers)
    headers.delete("authorization")
    return fetch(input, { ...init, headers })
  }
