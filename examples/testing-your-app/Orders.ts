import type { BuiltInKind, EmbeddedEngine } from "@kiln/core"

export interface Order {
  readonly id: string
  readonly customer: string
}

/** A part of the program that a test replaces. */
export type SendMail = (to: string, text: string) => void

/** Orders, each confirmed with a spoken message. Whether a worker runs beside it is not its affair. */
export class Orders implements Disposable {
  readonly #engine: EmbeddedEngine<BuiltInKind>
  readonly #sendMail: SendMail
  readonly #placed = new Map<string, Order>()
  readonly #ended = new Map<string, string>()
  readonly #subscriptions: ReadonlyArray<Disposable>

  constructor(engine: EmbeddedEngine<BuiltInKind>, sendMail: SendMail) {
    this.#engine = engine
    this.#sendMail = sendMail
    this.#subscriptions = [
      engine.on("done", ({ jobId }) => this.#jobEnded(jobId, "Your order is confirmed: listen to our message.")),
      engine.on("failed", ({ jobId }) => this.#jobEnded(jobId, "Your order is confirmed.")),
    ]
  }

  /** Places an order. Placed twice, it is one order with one message. Resolves with the id of the message's job. */
  async place(order: Order): Promise<string> {
    const request = { input: `Thank you, ${order.customer}. Order ${order.id} is on its way.` }
    const { id } = await this.#engine.submit("speech_synthesis", request, { idempotencyKey: order.id, mode: "live" })
    this.#placed.set(id, order)
    this.#confirm(id)
    return id
  }

  /** The message: `undefined` before it is there, and when it has expired. */
  async message(jobId: string): Promise<Uint8Array | undefined> {
    const job = await this.#engine.get<"speech_synthesis">(jobId)
    return job.status === "done" && job.output !== null ? this.#engine.readFile(job.output.audio) : undefined
  }

  #jobEnded(jobId: string, text: string): void {
    this.#ended.set(jobId, text)
    this.#confirm(jobId)
  }

  /** A job may end before its submitter hears of it: whichever comes second sends the mail. */
  #confirm(jobId: string): void {
    const order = this.#placed.get(jobId)
    const text = this.#ended.get(jobId)
    if (order === undefined || text === undefined) return
    this.#placed.delete(jobId)
    this.#ended.delete(jobId)
    this.#sendMail(order.customer, text)
  }

  [Symbol.dispose](): void {
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]()
  }
}
