import { jobKind } from "@kiln/core"
import type Database from "better-sqlite3"
import { z } from "zod"
import { CardDeclined, type Payments } from "./Payments.ts"

export const orderRequest = z.strictObject({ amount: z.int().min(1), card: z.string().min(1) })

export interface Order {
  /** Chosen by the client, so that it can repeat a request whose answer was lost. */
  readonly id: string
  readonly amount: number
  readonly card: string
  readonly status: "placed" | "paid" | "declined"
  readonly chargeId: string | null
  readonly jobId: string
}

/** The orders, in a table of the same database file as the jobs. */
export class OrderTable {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
    db.exec(`CREATE TABLE IF NOT EXISTS orders (
      id TEXT PRIMARY KEY, amount INTEGER NOT NULL, card TEXT NOT NULL,
      status TEXT NOT NULL DEFAULT 'placed', charge_id TEXT, job_id TEXT NOT NULL UNIQUE
    )`)
  }

  find(id: string): Order | undefined {
    const [row] = this.#db
      .prepare(`SELECT id, amount, card, status, charge_id AS "chargeId", job_id AS "jobId" FROM orders WHERE id = ?`)
      .all([id])
    return row as Order | undefined
  }

  /**
   * Writes an order and the job that `submit` creates in one transaction, synchronously. Repeating the call returns the order of
   * the first time. Throws for another amount or card under the same id.
   */
  place(
    order: Pick<Order, "id" | "amount" | "card">,
    submit: (transaction: Database) => { readonly id: string },
  ): Order {
    this.#db.exec("BEGIN IMMEDIATE")
    try {
      const found = this.find(order.id)
      if (found === undefined) {
        const job = submit(this.#db)
        this.#db
          .prepare("INSERT INTO orders (id, amount, card, job_id) VALUES (?, ?, ?, ?)")
          .run([order.id, order.amount, order.card, job.id])
      }
      this.#db.exec("COMMIT")
      if (found !== undefined && (found.amount !== order.amount || found.card !== order.card))
        throw new RangeError(`order ${order.id} exists with another amount or card`)
      return found ?? this.find(order.id)!
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec("ROLLBACK")
      throw error
    }
  }

  /** Has no effect when repeated. */
  settle(id: string, status: "paid" | "declined", chargeId: string | null): void {
    this.#db.prepare("UPDATE orders SET status = ?, charge_id = ? WHERE id = ?").run([status, chargeId, id])
  }
}

/** Charges an order. A retry continues after the last step that was stored. */
export const fulfillKind = (orders: OrderTable, payments: Payments) =>
  jobKind({
    name: "fulfill_order",
    request: z.strictObject({ orderId: z.string() }),
    output: z.object({ chargeId: z.string() }),
    metadata: ["orderId"],
    errorCodes: { card_declined: "The card was declined." },
    limits: { maxFailures: 10, attemptTimeoutMs: 30_000 },
    retry: { backoff: { baseMs: 200, maxMs: 60_000 } },
    run: async ({ failure, request: { orderId }, step }) => {
      const order = orders.find(orderId)
      if (order === undefined) throw new Error(`order ${orderId} does not exist`)
      let chargeId: string
      try {
        // The process may die after the charge and before its id is stored. The key makes the repeated call return the same charge.
        chargeId = await step("charge", (signal) => payments.charge(order, `order-${orderId}`, signal))
      } catch (error) {
        // Any other error is retried. After the last failure, the order stays placed, and an operator retries its job.
        if (!(error instanceof CardDeclined)) throw error
        orders.settle(orderId, "declined", null)
        throw failure("card_declined", { cause: error })
      }
      orders.settle(orderId, "paid", chargeId)
      return { output: { chargeId } }
    },
  })
