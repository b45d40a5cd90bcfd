import { createHash, createHmac } from "node:crypto"
import type { IncomingHttpHeaders } from "node:http"

// Written from AWS's description of Signature Version 4, independently of the client that signs.

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest()
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

interface Claim {
  readonly credential: string
  readonly signedHeaders: string
  readonly signature: string
  readonly datetime: string
  readonly payload: string
  readonly expiresMs: number
}

const claimOf = (query: URLSearchParams, headers: IncomingHttpHeaders): Claim | undefined => {
  if (query.has("X-Amz-Signature")) {
    const get = (name: string) => query.get(`X-Amz-${name}`) ?? ""
    return {
      credential: get("Credential"),
      signedHeaders: get("SignedHeaders"),
      signature: get("Signature"),
      datetime: get("Date"),
      payload: "UNSIGNED-PAYLOAD",
      expiresMs: Number(get("Expires")) * 1_000,
    }
  }
  const pattern = /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/
  const [, credential, signedHeaders, signature] = pattern.exec(headers.authorization ?? "") ?? []
  if (credential === undefined || signedHeaders === undefined || signature === undefined) return undefined
  const datetime = String(headers["x-amz-date"])
  const payload = String(headers["x-amz-content-sha256"])
  // The difference to the server's clock that S3 allows.
  return { credential, signedHeaders, signature, datetime, payload, expiresMs: 900_000 }
}

const timeOf = (datetime: string): number =>
  Date.parse(datetime.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"))

/** Returns S3's error code if a request is not signed as it must be. */
export const signatureProblem = (
  request: { readonly method: string; readonly url: string; readonly headers: IncomingHttpHeaders },
  credentials: { readonly accessKeyId: string; readonly secretAccessKey: string },
): string | undefined => {
  const { headers, method } = request
  const [path = "", search = ""] = request.url.split("?")
  const query = new URLSearchParams(search)
  const claim = claimOf(query, headers)
  if (claim === undefined) return "AccessDenied"
  const [keyId, date = "", region = "", service = "", last = ""] = claim.credential.split("/")
  if (keyId !== credentials.accessKeyId) return "InvalidAccessKeyId"
  const age = Date.now() - timeOf(claim.datetime)
  if (!(age > -900_000 && age < claim.expiresMs)) return "RequestTimeTooSkewed"
  const names = claim.signedHeaders.split(";")
  const amz = Object.keys(headers).filter((name) => name.startsWith("x-amz-"))
  if (!names.includes("host") || amz.some((name) => !names.includes(name))) return "AccessDenied"
  const canonicalQuery = [...query]
    .filter(([name]) => name !== "X-Amz-Signature")
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
  const canonical = [
    method,
    path
      .split("/")
      .map((part) => encode(decodeURIComponent(part)))
      .join("/"),
    canonicalQuery.join("&"),
    ...names.map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    claim.signedHeaders,
    claim.payload,
  ].join("\n")
  const scope = [date, region, service, last].join("/")
  const key = [region, service, last].reduce(hmac, hmac(`AWS4${credentials.secretAccessKey}`, date))
  const text = ["AWS4-HMAC-SHA256", claim.datetime, scope, sha256(canonical)].join("\n")
  return hmac(key, text).toString("hex") === claim.signature ? undefined : "SignatureDoesNotMatch"
}
