/** The result of parsing the `Authorization` headers of a request. */
export type BearerToken =
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" }
  | { readonly kind: "token"; readonly token: string }

// RFC 6750: credentials = "Bearer" 1*SP b64token; RFC 9110: schemes are case-insensitive.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i

/**
 * Parses the values of the `Authorization` headers, one per header line, trimmed, as an HTTP parser returns them. Two
 * headers, another scheme, or an invalid token are `malformed`, because the intended credentials would have to be guessed.
 */
export const parseBearerToken = (values: ReadonlyArray<string> | undefined): BearerToken => {
  const [value, second] = values ?? []
  if (value === undefined) return { kind: "missing" }
  const token = second === undefined ? BEARER.exec(value)?.[1] : undefined
  return token === undefined ? { kind: "malformed" } : { kind: "token", token }
}
