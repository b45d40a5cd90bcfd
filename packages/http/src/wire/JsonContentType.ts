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
