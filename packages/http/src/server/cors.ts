/**
 * Signed URLs are open to every origin, because the signature is the authorization and browsers are to upload and play
 * directly. Nothing else of the service is.
 */
export const corsHeaders: Readonly<Record<string, string>> = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers":
    "Accept-Ranges, Allow, Content-Disposition, Content-Length, Content-Range, Retry-After, X-Request-Id",
}

/** What a preflight is told; a day is the longest any browser remembers it. */
export const preflightHeaders = (methods: string): Readonly<Record<string, string>> => ({
  "access-control-allow-methods": methods,
  // Authorization is ignored on signed URLs, but a client that sends it everywhere must not fail for it.
  "access-control-allow-headers": "Authorization, Content-Type, Range, If-Range",
  "access-control-max-age": "86400",
})
