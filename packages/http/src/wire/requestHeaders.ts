/** The result of parsing the `Authorization` headers of a request. */
type BearerToken =
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

const OWS = "[ \\t]*"
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED_STRING = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*"'

const JSON_TYPE = new RegExp(`^${OWS}application/json(?=[ \\t;]|$)`, "i")
// RFC 9110 allows an empty parameter (`application/json;`).
const PARAMETER = new RegExp(`${OWS};${OWS}(?:(${TOKEN})=(${TOKEN}|${QUOTED_STRING}))?`, "y")
const REST = /[ \t]*$/y

/**
 * Returns whether the `Content-Type` headers (one value per header line) declare JSON in UTF-8: exactly one header,
 * `application/json`, with no charset or `utf-8`, quoted or not. Other well-formed parameters have no meaning for JSON and
 * are ignored.
 */
export const isJsonContentType = (values: ReadonlyArray<string> | undefined): boolean => {
  const [value, second] = values ?? []
  const type = value === undefined || second !== undefined ? null : JSON_TYPE.exec(value)
  if (value === undefined || type === null) return false
  let at = type[0].length
  for (;;) {
    PARAMETER.lastIndex = at
    const parameter = PARAMETER.exec(value)
    if (parameter === null) break
    const [, name = "", text = ""] = parameter
    if (name.toLowerCase() === "charset" && unquote(text).toLowerCase() !== "utf-8") return false
    at = PARAMETER.lastIndex
  }
  REST.lastIndex = at
  return REST.test(value)
}

const unquote = (text: string): string => (text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text)

/** Returns whether the `Content-Encoding` headers (one value per header line) are absent or only `identity`. */
export const isIdentityEncoding = (values: ReadonlyArray<string> | undefined): boolean =>
  (values ?? []).every((value) => value.split(",").every((coding) => /^(?:identity)?$/i.test(coding.trim())))

/** Supported encodings of a body, in order of preference. */
const contentCodings = ["br", "gzip"] as const
export type ContentCoding = (typeof contentCodings)[number] | "identity"

const ENTRY = /^([!#$%&'*+.^_`|~0-9a-z-]+)(?:\s*;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/**
 * Returns the best coding for an `Accept-Encoding`, with `br` before `gzip` at equal weight; `identity` without the header or
 * without a better match. Malformed entries are ignored.
 */
export const preferredCoding = (values: ReadonlyArray<string> | undefined): ContentCoding => {
  const weights = new Map<string, number>()
  for (const entry of (values ?? []).join(",").slice(0, 1_024).toLowerCase().split(",")) {
    const [, name, weight] = ENTRY.exec(entry.trim()) ?? []
    if (name !== undefined) weights.set(name, Number(weight ?? 1))
  }
  const weightOf = (coding: string) => weights.get(coding) ?? weights.get("*") ?? 0
  const [best] = contentCodings.toSorted((one, other) => weightOf(other) - weightOf(one))
  return best !== undefined && weightOf(best) > 0 && weightOf(best) >= (weights.get("identity") ?? 0)
    ? best
    : "identity"
}

/** Returns whether an `If-None-Match` contains this entity tag, by the weak comparison that RFC 9110 defines for GET. */
export const matchesEntityTag = (values: ReadonlyArray<string> | undefined, tag: string): boolean =>
  (values ?? [])
    .join(",")
    .split(",")
    .some((one) => one.trim() === "*" || one.trim().replace(/^W\//, "") === tag)

/** Longest wait in seconds that a poll is held for. */
const mostWaitSeconds = 30

const WAIT = /^wait\s*=\s*(?:([0-9]{1,9})|"([0-9]{1,9})")\s*(?:;.*)?$/i

/**
 * Returns the seconds of the preference `wait` in `Prefer` (RFC 7240), at most 30; `undefined` without a valid one. Only the first
 * `wait` counts, and other preferences are ignored.
 */
export const preferredWait = (values: ReadonlyArray<string> | undefined): number | undefined => {
  if (values === undefined) return undefined
  const first = values
    .join(",")
    .slice(0, 1_024)
    .split(",")
    .map((preference) => preference.trim())
    .find((preference) => /^wait\s*(?:[=;]|$)/i.test(preference))
  const [, token, quoted] = first === undefined ? [] : (WAIT.exec(first) ?? [])
  const seconds = token ?? quoted
  return seconds === undefined ? undefined : Math.min(Number(seconds), mostWaitSeconds)
}

type ParsedIdempotencyKey =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly reason: "missing" | "invalid" }

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"(.*)"$/

/**
 * Parses the values of the `Idempotency-Key` headers, one per header line, trimmed, as an HTTP parser returns them. A key
 * has 1 to 255 visible ASCII characters without spaces. One pair of outer quotes is not part of the key: the draft standard
 * specifies a quoted string, but most clients omit the quotes. An empty or repeated header is invalid.
 */
export const parseIdempotencyKey = (values: ReadonlyArray<string> | undefined): ParsedIdempotencyKey => {
  const [value, second] = values ?? []
  if (value === undefined) return { ok: false, reason: "missing" }
  const key = QUOTED.exec(value)?.[1] ?? value
  return second === undefined && VISIBLE_ASCII.test(key) ? { ok: true, key } : { ok: false, reason: "invalid" }
}
