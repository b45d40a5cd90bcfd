/** What the `Authorization` headers of a request amount to: `missing` asks for credentials, `malformed` is a bad key. */
export type BearerToken =
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" }
  | { readonly kind: "token"; readonly token: string }

// RFC 6750: credentials = "Bearer" 1*SP b64token; RFC 9110: schemes are case-insensitive.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i

/**
 * Reads the values of the `Authorization` headers, one per header line, as an HTTP parser hands them over (without the
 * white space around them). Two headers, another scheme, or something that is no bearer token are `malformed`: guessing
 * which credentials were meant would be worse.
 */
export const parseBearerToken = (values: ReadonlyArray<string> | undefined): BearerToken => {
  const [value, second] = values ?? []
  if (value === undefined) return { kind: "missing" }
  const token = second === undefined ? BEARER.exec(value)?.[1] : undefined
  return token === undefined ? { kind: "malformed" } : { kind: "token", token }
}
