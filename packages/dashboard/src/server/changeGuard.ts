/**
 * Returns whether a request that changes something comes from this page or from a program, and not from another site's page: its body
 * is JSON, which other sites cannot send without asking, and a browser names no other origin.
 */
export const isOwnChange = ({ headers, url }: Request): boolean => {
  if (!/^application\/json(?:;|$)/i.test(headers.get("content-type") ?? "")) return false
  const site = headers.get("sec-fetch-site")
  // A browser that says so knows the page's origin, also behind a proxy that replaces Host.
  if (site === "same-origin") return true
  if (site !== null && site !== "none") return false
  const origin = headers.get("origin")
  if (origin === null) return true
  if (!URL.canParse(origin)) return false
  return new URL(origin).host === (headers.get("host") ?? new URL(url).host)
}
