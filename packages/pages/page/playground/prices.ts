import { asObject } from "@kiln/pages/ui"
import { useEffect, useState } from "preact/hooks"
import { send } from "./api.ts"
import type { Audio } from "./audio.ts"
import { lengthOf, type Values } from "./Fields.tsx"

/** What live jobs of a kind cost. */
export interface KindPrice {
  readonly currency: string
  /** Decimals, by meter. */
  readonly unitAmounts: Readonly<Record<string, string>>
}

export type Prices = Readonly<Record<string, KindPrice>>

const priceOf = (value: unknown): KindPrice => {
  const { currency, unit_amounts: amounts } = asObject(value)
  return { currency: String(currency), unitAmounts: asObject(amounts) as KindPrice["unitAmounts"] }
}

/**
 * The prices that a key may read, read again after each job. There are none without a key, and none if they cannot be read: no job
 * depends on them.
 */
export const usePrices = (key: string | undefined, jobs: number): Prices => {
  const [known, setKnown] = useState<{ readonly key: string | undefined; readonly prices: Prices }>()
  useEffect(() => {
    const controller = new AbortController()
    const load = async (): Promise<void> => {
      const { body } = await send(key, "GET", "/playground/prices", undefined, controller.signal)
      const found = Object.entries(asObject(body["prices"])).map(([kind, price]) => [kind, priceOf(price)] as const)
      if (!controller.signal.aborted) setKnown({ key, prices: Object.fromEntries(found) })
    }
    if (key !== undefined) void load().catch(() => undefined)
    return () => controller.abort()
  }, [key, jobs])
  return known?.key === key ? (known?.prices ?? {}) : {}
}

interface Decimal {
  readonly digits: bigint
  readonly scale: number
}

const parse = (text: string): Decimal => {
  const [whole = "", fraction = ""] = text.split(".")
  return { digits: BigInt(whole + fraction), scale: fraction.length }
}

const plus = (one: Decimal, other: Decimal): Decimal => {
  const scale = Math.max(one.scale, other.scale)
  const at = ({ digits, scale: own }: Decimal) => digits * 10n ** BigInt(scale - own)
  return { digits: at(one) + at(other), scale }
}

const format = ({ digits, scale }: Decimal): string => {
  const text = String(digits).padStart(scale + 1, "0")
  const [whole, fraction] = [text.slice(0, text.length - scale), text.slice(text.length - scale).replace(/0+$/, "")]
  return fraction === "" ? whole : `${whole}.${fraction}`
}

interface Draft {
  readonly values: Values
  readonly audio: Audio | undefined
}

/** What a request of a built-in kind will use, by meter, as far as the form tells. */
const usageOf = ({ audio, values }: Draft): Readonly<Record<string, number | undefined>> => ({
  input_audio_seconds: audio === undefined ? undefined : Math.ceil(audio.seconds),
  input_characters: lengthOf(values["input"] ?? ""),
  // At most.
  output_tokens: values["max_output_tokens"] === undefined ? undefined : Number(values["max_output_tokens"]),
  images: 1,
})

/** `0.0123 USD`, `at most 0.5 USD`; or the price of each unit where the form does not tell how many there will be. */
export const estimate = (draft: Draft, { currency, unitAmounts }: KindPrice): string => {
  const unit = currency.toUpperCase()
  const meters = Object.entries(unitAmounts)
  const usage = usageOf(draft)
  let total: Decimal = { digits: 0n, scale: 0 }
  for (const [meter, amount] of meters) {
    const quantity = usage[meter]
    if (quantity === undefined || !Number.isInteger(quantity) || quantity < 0)
      return meters.map(([name, each]) => `${each} ${unit} × ${name.replaceAll("_", " ")}`).join(" + ")
    const { digits, scale } = parse(amount)
    total = plus(total, { digits: digits * BigInt(quantity), scale })
  }
  return `${"output_tokens" in unitAmounts ? "at most " : ""}${format(total)} ${unit}`
}
