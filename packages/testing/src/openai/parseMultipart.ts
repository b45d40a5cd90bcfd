import { refuse } from "./failures.ts"

export interface FormPart {
  readonly name: string
  readonly filename?: string
  readonly contentType: string
  readonly data: Uint8Array
}

const MAX_PARTS = 100
const MAX_HEADER_BYTES = 8192

/**
 * Parses a `multipart/form-data` body (RFC 7578 over RFC 2046). A delimiter is a whole line; similar text within a file is
 * data. Throws `RequestRefused` if the form is incomplete.
 */
export const parseMultipart = (contentType: string, body: Uint8Array): ReadonlyArray<FormPart> => {
  // The first delimiter may be at the very beginning; a line break in front of it makes it look like the others.
  const bytes = Buffer.concat([Buffer.from("\r\n"), body])
  const delimiter = Buffer.from(`\r\n--${boundaryOf(contentType)}`)
  const parts: Array<FormPart> = []
  let here = nextDelimiter(bytes, delimiter, 0)
  while (!here.isLast) {
    if (parts.length === MAX_PARTS) throw unreadable(`more than ${MAX_PARTS} parts`)
    const next = nextDelimiter(bytes, delimiter, here.end)
    parts.push(partOf(bytes.subarray(here.end, next.begin)))
    here = next
  }
  return parts
}

const unreadable = (why: string) => refuse(`Could not parse multipart form: ${why}.`)

const boundaryOf = (contentType: string): string => {
  const boundary = parametersOf(contentType).get("boundary")?.trimEnd() ?? ""
  if (boundary.length === 0 || boundary.length > 70) throw unreadable("no usable boundary")
  return boundary
}

interface Delimiter {
  readonly begin: number
  /** Offset after its line break. */
  readonly end: number
  readonly isLast: boolean
}

const nextDelimiter = (bytes: Buffer, delimiter: Buffer, from: number): Delimiter => {
  for (let begin = bytes.indexOf(delimiter, from); begin !== -1; begin = bytes.indexOf(delimiter, begin + 1)) {
    let end = begin + delimiter.length
    const isLast = bytes[end] === 0x2d && bytes[end + 1] === 0x2d
    if (isLast) end += 2
    while (bytes[end] === 0x20 || bytes[end] === 0x09) end++
    const hasLineBreak = bytes[end] === 0x0d && bytes[end + 1] === 0x0a
    if (hasLineBreak || (isLast && end === bytes.length)) return { begin, end: end + 2, isLast }
  }
  throw unreadable("the final boundary is missing")
}

const partOf = (part: Buffer): FormPart => {
  // A part without headers begins with the empty line that ends headers.
  const headerEnd = part.subarray(0, 2).equals(lineBreak) ? 0 : part.indexOf("\r\n\r\n") + 2
  if (headerEnd === 1 || headerEnd > MAX_HEADER_BYTES) throw unreadable("the headers of a part do not end")
  const headers = headersOf(part.toString("utf8", 0, headerEnd))
  const disposition = headers.get("content-disposition") ?? ""
  const parameters = parametersOf(disposition)
  const name = parameters.get("name")
  if (!/^form-data\s*(;|$)/i.test(disposition) || name === undefined) throw unreadable("a part without a name")
  const filename = decodedOf(parameters.get("filename*")) ?? parameters.get("filename")
  return {
    name,
    contentType: headers.get("content-type") ?? (filename === undefined ? "text/plain" : "application/octet-stream"),
    data: part.subarray(headerEnd + 2),
    ...(filename === undefined ? {} : { filename }),
  }
}

const lineBreak = Buffer.from("\r\n")

const headersOf = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text
      .split("\r\n")
      .filter((line) => line !== "")
      .map((line) => {
        const colon = line.indexOf(":")
        if (colon < 1) throw unreadable("a header without a colon")
        return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
  )

/**
 * Parses the parameters after the first semicolon of a header. Browsers and undici escape quotes and line breaks as %22, %0D
 * and %0A; curl and Python put a backslash before the quote.
 */
const parametersOf = (header: string): ReadonlyMap<string, string> =>
  new Map(
    Array.from(
      header.matchAll(/;\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^;]*))/g),
      ([, name = "", quoted, bare = ""]) => [
        name.toLowerCase(),
        (quoted?.replaceAll(/\\(["\\])/g, "$1") ?? bare).replaceAll(/%(?:22|0D|0A)/gi, (escape) =>
          decodeURIComponent(escape),
        ),
      ],
    ),
  )

/** Decodes `filename*=UTF-8''na%C3%AFve.wav` (RFC 5987), which some clients send in addition to the plain one. */
const decodedOf = (value: string | undefined): string | undefined => {
  const encoded = /^UTF-8'[^']*'(\S+)$/i.exec(value ?? "")?.[1]
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}
