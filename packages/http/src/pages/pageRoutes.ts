import * as Effect from "effect/Effect"
import * as OpenApi from "effect/http-api/OpenApi"
import type { Board, StoreUnavailable } from "@kiln/core/domain"
import type { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import type { OfferedKinds } from "../handlers/offerKinds.ts"
import { jsonHeaders } from "../server/Exchange.ts"
import type { Authenticate } from "../server/admission.ts"
import type { TakeByAddress } from "../server/limitAddresses.ts"
import type { Route } from "../server/app.ts"
import type { TrustedProxies } from "../wire/ClientAddress.ts"
import { compiledDocument } from "./compiledPage.ts"
import { installationApi } from "./installationApi.ts"
import { pageConfig } from "./pageConfig.ts"
import { playgroundKeyRoute } from "./playgroundKeys.ts"
import { playgroundPricesRoute } from "./playgroundPrices.ts"
import { serveStatic, type StaticDocument } from "./staticDocument.ts"

export interface PageOptions {
  readonly offers: OfferedKinds
  readonly publicUrl: () => string
  readonly take: TakeByAddress
  readonly trustedProxies: TrustedProxies
  /** Whether the playground issues sandbox keys to its visitors. */
  readonly playground: boolean
  readonly readBoard: Effect.Effect<Board, StoreUnavailable>
  readonly authenticate: Authenticate
}

/** The pages for people: the playground, the documentation, and the OpenAPI document that both read. */
export const pageRoutes = ({
  authenticate,
  offers,
  playground,
  publicUrl,
  readBoard,
  take,
  trustedProxies,
}: PageOptions): Effect.Effect<ReadonlyArray<Route>, never, KeyDirectory | IdGenerator> =>
  Effect.gen(function* () {
    const config = () => pageConfig(offers, publicUrl(), playground)
    const origin = () => new URL(publicUrl()).origin
    // Built on the first request, because the service knows its own URL only once it listens. Most processes never serve a page.
    const documents: Readonly<Record<string, Effect.Effect<StaticDocument>>> = {
      "/": Effect.promise(async () =>
        compiledDocument((await import("./compiled/playground.ts")).page, config(), origin()),
      ),
      "/docs": Effect.promise(async () =>
        compiledDocument((await import("./compiled/docs.ts")).page, config(), origin()),
      ),
      "/openapi.json": Effect.sync(() => ({
        text: JSON.stringify(OpenApi.fromApi(installationApi(publicUrl(), offers))),
        headers: jsonHeaders,
      })),
    }
    const routes: Array<Route> = [yield* playgroundPricesRoute(offers, readBoard, authenticate)]
    if (playground) routes.push(yield* playgroundKeyRoute(offers, trustedProxies))
    for (const [path, document] of Object.entries(documents)) {
      const handle = yield* serveStatic(document, take)
      routes.push({ method: "GET", path, handle }, { method: "HEAD", path, handle })
    }
    return routes
  })
