import { createHash } from "node:crypto"
import type { StaticDocument } from "./staticDocument.ts"

/** A page as `pnpm pages` compiles it: markup without its script and style. */
export interface CompiledPage {
  readonly html: string
  readonly style: string
  readonly script: string
}

const sha256 = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

/** Text as it stands between quotes. */
const escapeAttribute = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/** Nothing but what the page itself contains runs or styles it, and it talks to nobody but the service. */
const policyOf = ({ script, style }: CompiledPage, publicOrigin: string): string =>
  [
    "default-src 'none'",
    `script-src ${sha256(script)}`,
    `style-src ${sha256(style)}`,
    `connect-src 'self' ${publicOrigin}`,
    `img-src data: blob: 'self' ${publicOrigin}`,
    `media-src blob: 'self' ${publicOrigin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ")

/** One document with its script and style in it, and `config` as the attribute `data-config` of its body. */
export const compiledDocument = (page: CompiledPage, config: object, publicOrigin: string): StaticDocument => ({
  // The functions, because a string would be searched for patterns such as `$&`.
  text: page.html
    .replace("</head>", () => `<style>${page.style}</style></head>`)
    .replace("<body>", () => `<body data-config="${escapeAttribute(JSON.stringify(config))}">`)
    .replace("</body>", () => `<script type="module">${page.script}</script></body>`),
  headers: {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "content-security-policy": policyOf(page, publicOrigin),
    "referrer-policy": "no-referrer",
  },
})
