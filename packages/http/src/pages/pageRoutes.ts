import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import type { Offers } from "../handlers/offerKinds.ts"
import { jsonReply } from "../server/Reply.ts"
import type { Handler, Route } from "../server/Router.ts"
import { docsPolicy, renderDocs } from "./docsPage.ts"
import { htmlReply, type Page, pagePolicy, renderPage } from "./htmlPage.ts"
import { installationApi } from "./installationApi.ts"
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
export const pageRoutes = (offers: Offers, publicUrl: () => string): Effect.Effect<ReadonlyArray<Route>> =>
  Effect.gen(function* () {
    const voices = voicesOf(offers)
    const origin = () => new URL(publicUrl()).origin
    const options = () => ({ serverUrl: publicUrl(), voices })
    const docs = yield* Effect.cached(Effect.suspend(() => renderDocs(options(), offers)))
    const tryPage: Page = {
      title: "kiln",
      body: tryMarkup,
      data: { voices: JSON.stringify(voices) },
      style: tryStyle,
      script: tryScript,
    }
    const pages: Readonly<Record<string, Handler>> = {
      "/": () => Effect.sync(() => htmlReply(renderPage(tryPage), pagePolicy(tryPage, origin()))),
      "/docs": () => Effect.map(docs, (html) => htmlReply(html, docsPolicy(origin()))),
      "/openapi.json": () => Effect.sync(() => jsonReply(200, OpenApi.fromApi(installationApi(options(), offers)))),
    }
    return Object.entries(pages).flatMap(([path, handle]) => [
      { method: "GET", path, handle },
      { method: "HEAD", path, handle },
    ])
  })
