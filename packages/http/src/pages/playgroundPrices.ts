import * as Effect from "effect/Effect"
import type { Board, StoreUnavailable } from "@kiln/core/domain"
import type { OfferedKinds } from "../handlers/offerKinds.ts"
import type { Authenticate } from "../server/admission.ts"
import { asStep, jsonReply, Refusal } from "../server/Exchange.ts"
import type { Handler, Route } from "../server/app.ts"

/** Prices change rarely; visitors are many. */
const keptFor = "5 seconds"

const pricesOf = (offers: OfferedKinds, { prices }: Board) =>
  Object.fromEntries(
    [...offers.values()].flatMap(({ kind: { gate, name } }) => {
      const price = gate.price === null ? undefined : prices[gate.price]
      // Live jobs are refused under a price that lacks a meter.
      if (price === undefined || !gate.meters.every((meter) => Object.hasOwn(price.unitAmounts, meter))) return []
      const amounts = gate.meters.map((meter) => [meter, price.unitAmounts[meter]] as const)
      return [[name, { currency: price.currency, unit_amounts: Object.fromEntries(amounts) }]]
    }),
  )

/**
 * Tells the holder of a key what live jobs cost: `GET /playground/prices`, by kind. The billing of each job tells the same
 * afterwards.
 */
export const playgroundPricesRoute = (
  offers: OfferedKinds,
  readBoard: Effect.Effect<Board, StoreUnavailable>,
  authenticate: Authenticate,
): Effect.Effect<Route> =>
  Effect.map(
    Effect.cachedWithTTL(
      Effect.map(readBoard, (board) => pricesOf(offers, board)),
      keptFor,
    ),
    (prices): Route => {
      const handle: Handler = (exchange, _, clock) =>
        Effect.flatMap(asStep(authenticate(exchange, clock)), () =>
          prices.pipe(
            Effect.mapError((cause) => new Refusal({ code: "service_unavailable", cause })),
            Effect.map((found) => jsonReply(200, { prices: found })),
          ),
        )
      return { method: "GET", path: "/playground/prices", handle }
    },
  )
