// Does in code what operators do on the command line: `kiln price set`, `kiln switch on`, `kiln billing export`.
import type { EmbeddedEngine, ListedCharge } from "@kiln/core"

type Operated = Pick<EmbeddedEngine, "operator">

/** Sets the price and switches that live jobs need. A new store has none. */
export const openForBusiness = async ({ operator }: Operated): Promise<void> => {
  await operator.setPrice({
    name: "svc-audio",
    currency: "usd",
    unitAmounts: { input_audio_seconds: "0.0001", input_characters: "0.000015", output_tokens: "0.00002" },
  })
  await operator.setSwitch("ai", true)
  await operator.setSwitch("audio", true)
}

/** Returns all charges, oldest first. */
export const chargesSoFar = ({ operator }: Operated): AsyncIterable<ListedCharge> =>
  operator.listCharges({ from: new Date(0), to: new Date(Date.now() + 86_400_000) })
