import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import type { OfferedKinds } from "../handlers/offerKinds.ts"
import { jsonHeaders } from "../server/Reply.ts"
import type { TakeByAddress } from "../server/limitAddresses.ts"
import type { Route } from "../server/Router.ts"
import { docsPolicy, renderDocs } from "./docsPage.ts"
import { htmlDocument, type Page, pagePolicy, renderPage } from "./htmlPage.ts"
import { installationApi } from "./installationApi.ts"
import { serveStatic, type StaticDocument } from "./staticDocument.ts"
import { tryKinds, tryMarkup } from "./tryMarkup.ts"
import { tryScript } from "./tryScript.ts"
import { tryStyle } from "./tryStyle.ts"

/** The pages for people: the try page, the reference, and the OpenAPI document they are built from. */
export const pageRoutes = (
  offers: OfferedKinds,
  publicUrl: () => string,
  take: TakeByAddress,
): Effect.Effect<ReadonlyArray<Route>> =>
  Effect.gen(function* () {
    const origin = () => new URL(publicUrl()).origin
    const describe = () => OpenApi.fromApi(installationApi(publicUrl(), offers))
    const tryPage = (): Page => ({
      title: "kiln",
      body: tryMarkup(offers, describe().components.schemas),
      data: { kinds: JSON.stringify(tryKinds(offers)) },
      style: tryStyle,
      script: tryScript,
    })
    // Built on the first request, because the service knows its own URL only once it listens.
    const documents: Readonly<Record<string, Effect.Effect<StaticDocument>>> = {
      "/": Effect.sync(() => {
        const page = tryPage()
        return htmlDocument(renderPage(page), pagePolicy(page, origin()))
      }),
      "/docs": Effect.suspend(() =>
        Effect.map(renderDocs(publicUrl(), offers), (html) => htmlDocument(html, docsPolicy(origin()))),
      ),
      "/openapi.json": Effect.sync(() => ({
        text: JSON.stringify(describe()),
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
