import type { Kind } from "@kiln/core"
import { wholeKind } from "@kiln/core/effect"
import { builtInKinds, portsOf } from "@kiln/core/kinds"
import type { ProviderPort } from "@kiln/core/providers"
import {
  givenField,
  isDate,
  type OptionNames,
  requireOneOf,
  requireOptions,
  requireProviderNames,
} from "@kiln/core/domain"
import type { RunMode, TestEngineOptions, TestPrice } from "./TestEngine.ts"

const optionNames: OptionNames<TestEngineOptions<Kind>> = {
  kinds: true,
  mode: true,
  providers: true,
  jobMode: true,
  prices: true,
  probe: true,
  settings: true,
  startAt: true,
  log: true,
}
const runModes: { readonly [Mode in RunMode]: true } = { inline: true, manual: true, live: true }
const priceNames: OptionNames<TestPrice> = { currency: true, unitAmounts: true }

/** Throws `TypeError` for unknown or invalid options of `testEngine`. */
export const checkTestOptions = (options: object): void => {
  requireOptions("testEngine()", options, optionNames)
  const {
    jobMode = "sandbox",
    kinds = builtInKinds(),
    mode = "inline",
    prices = {},
    providers = {},
    startAt,
  } = options as TestEngineOptions
  requireOneOf("mode", mode, Object.keys(runModes))
  requireOneOf("jobMode", jobMode, ["sandbox", "live"])
  const providerNames = portsIn(kinds).map(({ name }) => name)
  requireProviderNames("providers", providers, providerNames)
  for (const name of providerNames) {
    const provider = givenField(providers, name)
    if (typeof provider === "string") requireOneOf(`providers.${name}`, provider, ["fake", "none"])
  }
  if (prices !== false)
    for (const [name, price] of Object.entries(prices)) requireOptions(`prices.${name}`, price, priceNames)
  if (startAt !== undefined && (!isDate(startAt) || Number.isNaN(startAt.getTime())))
    throw new TypeError("startAt must be a valid Date; leave it out for the default")
}

/** Returns the provider ports of these kinds and the built-in ones. Throws `TypeError` for anything but kinds. */
export const portsIn = (kinds: unknown = builtInKinds()): ReadonlyArray<ProviderPort> =>
  portsOf(Array.isArray(kinds) ? kinds.map(wholeKind) : [])
