import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import type { Offers } from "../handlers/offerKinds.ts"
import { jsonHeaders } from "../server/Reply.ts"
import type { TakeByAddress } from "../server/limitAddresses.ts"
import type { Route } from "../server/Router.ts"
import { docsPolicy, renderDocs } from "./docsPage.ts"
import { htmlDocument, type Page, pagePolicy, renderPage } from "./htmlPage.ts"
import { installationApi } from "./installationApi.ts"
import { serveStatic, type StaticDocument } from "./staticDocument.ts"
import { tryMarkup } from "./tryMarkup.ts"
import { tryScript } from "./tryScript.ts"
import { tryStyle } from "./tryStyle.ts"

/** The names of the voices, asked of the kind itself: what it would allow in the place of one it does not know. */
const voicesOf = (offers: Offers): ReadonlyArray<string> => {
  const read = offers.get("speech_synthesis")?.kind.reader.read({ input: "text", voice: "" })
  const problem = read?._tag === "Failure" ? read.failure.find(({ field }) => field === "voice") : undefined
  return problem?.allowed ?? []
}

/** The pages for people: one to try the service, its reference, and the description both are made from. */
export const pageRoutes = (
  offers: Offers,
  publicUrl: () => string,
  take: TakeByAddress,
): Effect.Effect<ReadonlyArray<Route>> =>
  Effect.gen(function* () {
    const voices = voicesOf(offers)
    const origin = () => new URL(publicUrl()).origin
    const options = () => ({ serverUrl: publicUrl(), voices })
    const tryPage: Page = {
      title: "kiln",
      body: tryMarkup,
      data: { voices: JSON.stringify(voices) },
      style: tryStyle,
      script: tryScript,
    }
    // Made when first asked for: the service knows its own URL only once it listens.
    const documents: Readonly<Record<string, Effect.Effect<StaticDocument>>> = {
      "/": Effect.sync(() => htmlDocument(renderPage(tryPage), pagePolicy(tryPage, origin()))),
      "/docs": Effect.suspend(() =>
        Effect.map(renderDocs(options(), offers), (html) => htmlDocument(html, docsPolicy(origin()))),
      ),
      "/openapi.json": Effect.sync(() => ({
        text: JSON.stringify(OpenApi.fromApi(installationApi(options(), offers))),
        headers: jsonHeaders,
      })),
    }
    const routes: Array<Route> = []
    for (const [path, document] of Object.entries(documents)) {
      const handle = yield* serveStatic(document, take)
      routes.push({ method: "GET", path, handle }, { method: "HEAD", path, handle })
    }
    return routes
  })
