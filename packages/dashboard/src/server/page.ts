import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, gzip } from "node:zlib"

/** The page talks to its own origin only, and runs and styles nothing but its own files. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ")

const types = {
  "index.html": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "app.css": "text/css; charset=utf-8",
} as const

type FileName = keyof typeof types

const isFile = (name: string): name is FileName => Object.hasOwn(types, name)

interface Served {
  readonly tag: string
  readonly plain: Uint8Array<ArrayBuffer>
  readonly br: Uint8Array<ArrayBuffer>
  readonly gzip: Uint8Array<ArrayBuffer>
}

const compress = async (text: string): Promise<Served> => {
  const plain = new Uint8Array(Buffer.from(text))
  const [br, gz] = await Promise.all([promisify(brotliCompress)(plain), promisify(gzip)(plain)])
  const tag = createHash("sha256").update(plain).digest("base64url").slice(0, 22)
  return { tag, plain, br: new Uint8Array(br), gzip: new Uint8Array(gz) }
}

const files = new Map<FileName, Promise<Served>>()

/** Loaded on the first request, because most processes never serve the page. */
const load = (name: FileName): Promise<Served> => {
  const known = files.get(name)
  if (known !== undefined) return known
  const served = import("../page/assets.ts").then(({ assets }) => compress(assets[name]))
  files.set(name, served)
  return served
}

/** Responds with a file of the page; `undefined` if there is no such file. */
export const servePage = async ({ headers }: Request, name: string): Promise<Response | undefined> => {
  const file = name === "" ? "index.html" : name
  if (!isFile(file)) return undefined
  const served = await load(file)
  const accepted = headers.get("accept-encoding") ?? ""
  const coding = /\bbr\b/.test(accepted) ? "br" : /\bgzip\b/.test(accepted) ? "gzip" : undefined
  const tag = `"${served.tag}${coding === undefined ? "" : `-${coding}`}"`
  const common = {
    "cache-control": "no-cache",
    "content-security-policy": contentSecurityPolicy,
    "content-type": types[file],
    etag: tag,
    "referrer-policy": "no-referrer",
    vary: "accept-encoding",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  }
  if (headers.get("if-none-match") === tag) return new Response(null, { status: 304, headers: common })
  return new Response(served[coding ?? "plain"], {
    headers: { ...common, ...(coding !== undefined && { "content-encoding": coding }) },
  })
}
