import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import { exampleIdempotencyKey } from "@kiln/client/api"
import type { OfferedKinds } from "../handlers/offerKinds.ts"
import { installationApi } from "./installationApi.ts"

/** No fonts, no reports, no tools that live elsewhere. Some of these the renderer knows, but not the type of its settings. */
const scalar = {
  theme: "default",
  withDefaultFonts: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  telemetry: false,
  authentication: { preferredSecurityScheme: "apiKey" },
} as const

/** The reference as one page with everything in it. Its renderer has three megabytes, so it is loaded when first asked for. */
export const renderDocs = (serverUrl: string, offers: OfferedKinds): Effect.Effect<string> =>
  Effect.promise(async () => {
    const page = HttpApiScalar.layer(installationApi(serverUrl, offers), { path: "/docs", scalar })
    const { dispose, handler } = HttpRouter.toWebHandler(page, { disableLogger: true })
    const response = await handler(new Request("http://localhost/docs"))
    const html = await response.text()
    await dispose()
    // The function, because a string would be searched for patterns such as `$&`.
    return html.replace("<head>", () => `<head><script>${freshKeys}</script>`)
  })

/**
 * Sends a new key in place of the example, with which the page fills the form of every operation: the second job would otherwise be
 * refused as another request with the same key. A key that the reader has typed is sent as it is.
 */
const freshKeys = `{
  const send = globalThis.fetch
  globalThis.fetch = (input, init) => {
    const request = new Request(input, init)
    if (request.headers.get("idempotency-key") === "${exampleIdempotencyKey}") {
      const bytes = crypto.getRandomValues(new Uint8Array(16))
      request.headers.set("idempotency-key", Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""))
    }
    return send(request)
  }
}`

/** The renderer styles as it goes. It may ask the service, and nobody else: neither fonts nor proxies are loaded. */
export const docsPolicy = (publicOrigin: string): string =>
  [
    "default-src 'none'",
    "script-src 'unsafe-inline'",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "media-src blob:",
    "font-src data:",
    `connect-src 'self' ${publicOrigin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ")
