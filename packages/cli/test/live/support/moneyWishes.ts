import type { Wish } from "../../crash/support/RetryingClient.ts"
import { exactSum, exactTimes } from "./exactSum.ts"
import { recordingSeconds } from "./LiveClient.ts"

/** A request, and its cost when it is done. */
export interface PricedWish extends Wish {
  readonly mode: "live" | "sandbox"
  /** By the price that was in force when it was accepted. */
  readonly price: Price
}

export interface Price {
  readonly input_audio_second: string
  readonly input_character: string
  readonly output_token: string
  readonly image: string
}

/** The price of the first half, and what it is changed to for the second. */
export const prices: readonly [Price, Price] = [
  {
    input_audio_second: "0.000100000000000000000000000007",
    input_character: "0.0000150000000123456789012345678901",
    output_token: "0.00002000000000000000000000000000000009",
    image: "0.011000000000000000000000000000000000000003",
  },
  {
    input_audio_second: "12345.6789",
    input_character: "0.3333333333333333333333333333333333",
    output_token: "1000000.000000000000000000000000000001",
    image: "7",
  },
]

const alphabet = ["a", "é", "世", "🎧", " "]

/** Between 1 and 600 code points, of one byte to four. */
const textFrom = (random: () => number): string => {
  const length = Math.floor(600 * random() ** 2)
  return `x${Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join("")}`
}

const kindFrom = (random: () => number): Wish["kind"] => {
  const chance = random()
  if (chance < 0.82) return "speech"
  if (chance < 0.9) return "transcription"
  return chance < 0.95 ? "image" : "voice turn"
}

/** `live` wishes, and a tenth as many of the sandbox among them. The second half comes after the price has changed. */
export const wishesFrom = (random: () => number, live: number): ReadonlyArray<PricedWish> => {
  const count = live + Math.floor(live / 10)
  return Array.from({ length: count }, (_, index) => ({
    kind: kindFrom(random),
    mode: index % 11 === 10 ? "sandbox" : "live",
    idempotencyKey: `wish-${index}`,
    text: textFrom(random),
    sample: Math.floor(256 * random()),
    price: prices[index < count / 2 ? 0 : 1],
  }))
}

/** Tokens a voice turn asks for; the stand-in always has more to say. */
const turnTokens = 9

/** What the wish must cost, item by item. */
export const itemsOf = ({ kind, price, text }: PricedWish): ReadonlyArray<readonly [meter: string, amount: string]> => {
  const seconds = ["input_audio_seconds", exactTimes(price.input_audio_second, recordingSeconds)] as const
  switch (kind) {
    case "speech":
      return [["input_characters", exactTimes(price.input_character, [...text].length)]]
    case "transcription":
      return [seconds]
    case "voice turn":
      return [seconds, ["output_tokens", exactTimes(price.output_token, turnTokens)]]
    case "image":
      return [["images", exactTimes(price.image, 1)]]
  }
}

export const costOf = (wish: PricedWish): string => exactSum(itemsOf(wish).map(([, amount]) => amount))
