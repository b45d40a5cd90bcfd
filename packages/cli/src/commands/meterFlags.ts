import type { priceNames } from "@kiln/core/domain"

export type PriceName = (typeof priceNames)[number]

export type MeterFlag = "input-audio-second" | "input-character" | "output-token" | "image"

/** The flag of each meter, and the price it belongs to. */
export const meterFlags: ReadonlyArray<{
  readonly meter: string
  readonly flag: MeterFlag
  readonly price: PriceName
}> = [
  { meter: "input_audio_seconds", flag: "input-audio-second", price: "svc-audio" },
  { meter: "input_characters", flag: "input-character", price: "svc-audio" },
  { meter: "output_tokens", flag: "output-token", price: "svc-audio" },
  { meter: "images", flag: "image", price: "svc-image" },
]

export const flagsOf = (lacking: ReadonlyArray<string>): string =>
  meterFlags
    .filter(({ meter }) => lacking.includes(meter))
    .map(({ flag }) => `--${flag}`)
    .join(" and ")

/** Returns the command that sets a price with all its meters. */
export const priceCommand = (price: string): string =>
  [
    `kiln price set ${price} --currency usd`,
    ...meterFlags.filter((meter) => meter.price === price).map(({ flag }) => `--${flag} AMOUNT`),
  ].join(" ")
