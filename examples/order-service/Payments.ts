/** The card was declined. Another attempt would be declined as well. */
export class CardDeclined extends Error {
  override readonly name = "CardDeclined"
}

/** The client of a payment service that recognizes repeated charges by their idempotency key. */
export class Payments {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  /** Charges a card and returns the id of the charge. Throws `CardDeclined`, or another error if the service does not answer. */
  async charge(
    { amount, card }: { readonly amount: number; readonly card: string },
    idempotencyKey: string,
    signal: AbortSignal,
  ): Promise<string> {
    const response = await fetch(`${this.#url}/charges`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": idempotencyKey },
      body: JSON.stringify({ amount, card }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
    })
    if (response.status === 402) throw new CardDeclined("402 from the payment service")
    if (!response.ok) throw new Error(`${response.status} from the payment service`)
    const { id }: { readonly id: string } = await response.json()
    return id
  }
}
