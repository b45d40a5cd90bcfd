import { createHash } from "node:crypto"
import type { StaticDocument } from "./staticDocument.ts"

const sha256 = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

/** Text as it stands in an element or between quotes. */
export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

export interface Page {
  readonly title: string
  readonly body: string
  /** For scripts: attributes of the body element, without their `data-`. */
  readonly data: Readonly<Record<string, string>>
  readonly style: string
  readonly script: string
}

/** A flame. Without an icon of its own, a page makes browsers ask for `/favicon.ico`. */
const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%23b3400f' d='M12 2c2 4 6 6 6 11a6 6 0 0 1-12 0c0-2 1-3.500 2-4.500 0 2 1 3 2 3.500 0-4 1-7 2-10z'/%3E%3C/svg%3E"

export const renderPage = ({ body, data, script, style, title }: Page): string => {
  const attributes = Object.entries(data).map(([name, value]) => ` data-${name}="${escapeHtml(value)}"`)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${icon}">
<style>${style}</style>
</head>
<body${attributes.join("")}>${body}<script>${script}</script>
</body>
</html>
`
}

/** Nothing but what the page itself contains runs or styles it, and it talks to nobody but the service. */
export const pagePolicy = ({ script, style }: Page, publicOrigin: string): string =>
  [
    "default-src 'none'",
    `script-src ${sha256(script)}`,
    `style-src ${sha256(style)}`,
    `connect-src 'self' ${publicOrigin}`,
    `img-src data: 'self' ${publicOrigin}`,
    `media-src blob: 'self' ${publicOrigin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ")

export const htmlDocument = (html: string, contentSecurityPolicy: string): StaticDocument => ({
  text: html,
  headers: {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "content-security-policy": contentSecurityPolicy,
    "referrer-policy": "no-referrer",
  },
})
