import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { Decimal, priceNames } from "@kiln/core/domain"
import { builtInKinds, closedKinds } from "@kiln/core/kinds"
import { Switchboard } from "@kiln/core/ports"
import { misused } from "../CommandFailed.ts"
import { answer } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { beginStores } from "../withStores.ts"
import { flagsOf, type MeterFlag, meterFlags, type PriceName } from "./meterFlags.ts"
import { priceFields } from "./priceFields.ts"

const unitAmount = (name: MeterFlag, of: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(`Price of one ${of}, as a plain decimal`),
    Flag.withMetavar("AMOUNT"),
    Flag.optional,
  )

const flags = {
  name: Argument.Literals("PRICE", priceNames).pipe(Argument.withDescription("svc-audio or svc-image")),
  currency: Flag.String("currency").pipe(Flag.withDescription("Lower-case ISO 4217"), Flag.withDefault("usd")),
  "input-audio-second": unitAmount("input-audio-second", "second of input audio"),
  "input-character": unitAmount("input-character", "character spoken"),
  "output-token": unitAmount("output-token", "output token"),
  image: unitAmount("image", "image"),
}

const unitAmounts = Effect.fnUntraced(function* (
  price: PriceName,
  currency: string,
  given: Readonly<Record<MeterFlag, Option.Option<string>>>,
) {
  if (!/^[a-z]{3}$/.test(currency)) return yield* misused("--currency must be a lower-case ISO 4217 code like usd")
  const amounts: Record<string, string> = {}
  for (const { flag, meter, price: priceOfMeter } of meterFlags) {
    const text = Option.getOrUndefined(given[flag])
    if (text === undefined) continue
    if (priceOfMeter !== price) return yield* misused(`--${flag} belongs to ${priceOfMeter}, not to ${price}`)
    const amount = Decimal.tryParse(text)
    if (amount === undefined) return yield* misused(`--${flag} must be a plain decimal like 0.0001`)
    amounts[meter] = Decimal.format(amount)
  }
  if (Object.keys(amounts).length > 0) return amounts
  const offered = meterFlags.filter((meter) => meter.price === price).map(({ flag }) => `--${flag}`)
  return yield* misused(`${price} needs a unit amount: ${offered.join(", ")}`)
})

export const priceSet = Command.make("set", flags, ({ currency, name, ...given }) =>
  beginStores(
    Effect.asVoid(unitAmounts(name, currency, given)),
    Effect.gen(function* () {
      const amounts = yield* unitAmounts(name, currency, given)
      const price = yield* (yield* Switchboard)
        .setPrice({ name, currency, unitAmounts: amounts })
        .pipe(recordChange({ action: "price.set", subject: name, details: { currency, unit_amounts: amounts } }))
      const closed = closedKinds(builtInKinds(), price)
      const next = price.active ? "it applies to new jobs" : `not active yet: kiln price activate ${name}`
      yield* answer({
        json: {
          ...priceFields(price),
          ...(closed.length > 0 && { closed_types: closed.map(({ kind }) => kind) }),
        },
        text: [
          `${name} version ${price.version} is set; ${next}`,
          ...closed.map(
            ({ kind, lacking }) =>
              `warning: live jobs of type ${kind} are rejected: the price lacks ${flagsOf(lacking)}; use 0 for free meters`,
          ),
        ].join("\n"),
      })
    }),
  ),
).pipe(
  Command.withDescription("Add a version of a price"),
  Command.withExamples([
    {
      command:
        "kiln price set svc-audio --currency usd --input-audio-second 0.0001 --input-character 0.000015 --output-token 0.00002",
    },
    { command: "kiln price set svc-image --currency usd --image 0.011" },
  ]),
)
