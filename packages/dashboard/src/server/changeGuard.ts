/**
 * Returns whether a request that changes something comes from this page or from a program, and not from another site's page: its body
 * is JSON, or it has none and brings a bearer token. Other sites can send neither without asking. A browser names no other origin.
 */
export const isOwnChange = ({ headers, url }: Request): boolean => {
  const type = headers.get("content-type")
  const needsConsent =
    type === null ? /^bearer /i.test(headers.get("authorization") ?? "") : /^application\/json(?:;|$)/i.test(type)
  if (!needsConsent) return false
  const site = headers.get("sec-fetch-site")
  // A browser that says so knows the page's origin, also behind a proxy that replaces Host.
  if (site === "same-origin") return true
  if (site !== null && site !== "none") return false
  const origin = headers.get("origin")
  if (origin === null) return true
  if (!URL.canParse(origin)) return false
  return new URL(origin).host === (headers.get("host") ?? new URL(url).host)
}
