import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { meters, priceNames } from "@kiln/core/domain"
import { type PriceVersion, Switchboard } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { priceFields } from "./priceFields.ts"
import { priceSet } from "./priceSet.ts"

const amountsOf = (price: PriceVersion): string =>
  meters
    .filter((meter) => price.unitAmounts[meter] !== undefined)
    .map((meter) => `${meter} ${price.unitAmounts[meter]}`)
    .join(", ")

const list = Command.make("list", {}, () =>
  withStores(
    Effect.gen(function* () {
      const prices = yield* (yield* Switchboard).listPrices
      const rows = prices.map((price) => [
        price.name,
        String(price.version),
        price.active ? "yes" : "no",
        price.currency,
        amountsOf(price),
        formatTime(price.createdAt),
      ])
      yield* answer({
        json: { prices: prices.map(priceFields) },
        text: formatTable(
          ["PRICE", "VERSION", "ACTIVE", "CURRENCY", "UNIT AMOUNTS", "CREATED"],
          rows,
          "no prices yet; add one with kiln price set (see --help)",
        ),
      })
    }),
  ),
).pipe(Command.withDescription("List all versions of all prices"))

const activator = (word: "activate" | "deactivate") =>
  Command.make(
    word,
    { name: Argument.Literals("PRICE", priceNames).pipe(Argument.withDescription("svc-audio or svc-image")) },
    ({ name }) =>
      withStores(
        Effect.gen(function* () {
          const active = word === "activate"
          const known = yield* (yield* Switchboard)
            .activatePrice(name, active)
            .pipe(recordChange({ action: `price.${word}`, subject: name }))
          if (!known)
            return yield* failed(`${name} has no versions yet; add one with kiln price set ${name} (see --help)`)
          yield* answer({ json: { name, active }, text: `${name} is ${active ? "active" : "not active"}` })
        }),
      ),
  ).pipe(
    Command.withDescription(
      word === "activate"
        ? "Charge new live jobs according to the newest version"
        : "Reject live jobs that need the price",
    ),
  )

export const priceCommand = Command.make("price").pipe(
  Command.withDescription("Set and activate the prices of live jobs"),
  Command.withSubcommands([priceSet, list, activator("activate"), activator("deactivate")]),
)
