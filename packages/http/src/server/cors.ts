/**
 * Headers that open signed URLs to every origin: the signature is the authorization, and browsers upload and play directly.
 * No other route allows other origins.
 */
export const corsHeaders: Readonly<Record<string, string>> = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers":
    "Accept-Ranges, Allow, Content-Disposition, Content-Length, Content-Range, Retry-After, X-Request-Id",
}

/** Returns the headers of a preflight response, cached for a day, the longest time any browser allows. */
export const preflightHeaders = (methods: string): Readonly<Record<string, string>> => ({
  "access-control-allow-methods": methods,
  // Authorization is ignored on signed URLs, but clients that always send it must not fail.
  "access-control-allow-headers": "Authorization, Content-Digest, Content-Type, Range, If-Range",
  "access-control-max-age": "86400",
})
