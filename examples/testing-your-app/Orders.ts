import type { BuiltInKind, EmbeddedEngine } from "@kiln/core"

export interface Order {
  readonly id: string
  readonly customer: string
}

/** A part of the program that a test replaces. */
export type SendMail = (to: string, text: string) => void

/** Orders, each confirmed with a spoken message. Works with or without a worker in the same process. */
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
      engine.on("completed", ({ jobId }) => this.#jobEnded(jobId, "Your order is confirmed: listen to our message.")),
      engine.on("failed", ({ jobId }) => this.#jobEnded(jobId, "Your order is confirmed.")),
    ]
  }

  /** Places an order. Repeating the call has no effect. Resolves to the id of the message's job. */
  async place(order: Order): Promise<string> {
    const request = { input: `Thank you, ${order.customer}. Order ${order.id} is on its way.` }
    const { id } = await this.#engine.submit("speech_synthesis", request, { idempotencyKey: order.id, mode: "live" })
    this.#placed.set(id, order)
    this.#confirm(id)
    return id
  }

  /** Returns the message, or `undefined` before it is ready and after it has expired. */
  async message(jobId: string): Promise<Uint8Array | undefined> {
    const job = await this.#engine.get<"speech_synthesis">(jobId)
    return job.status === "done" && job.output !== null ? this.#engine.readFile(job.output.audio) : undefined
  }

  #jobEnded(jobId: string, text: string): void {
    this.#ended.set(jobId, text)
    this.#confirm(jobId)
  }

  /** A job may finish before `submit` returns: whichever happens second sends the mail. */
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
