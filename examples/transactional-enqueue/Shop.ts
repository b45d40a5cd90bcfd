import type { BuiltInKind, JobId, OperatorVerbs } from "@kiln/core"

/** A committed order and its job. */
export interface Ordered {
  readonly jobId: JobId
  /** When the commit was sent, by `performance.now()`. */
  readonly committedAt: number
}

/** A program with its own table of orders, each of which is spoken by a job. */
export interface Shop extends AsyncDisposable {
  /** Inserts the order and its job in one transaction. Rolls back both if the text is `declined`. */
  readonly order: (text: string) => Promise<Ordered>
  readonly countOrders: () => Promise<number>
  readonly engine: {
    readonly on: (type: "active", listener: (event: { readonly jobId: JobId }) => void) => () => void
    readonly wait: (jobId: string) => Promise<{ readonly status: string }>
    readonly operator: Pick<OperatorVerbs<BuiltInKind>, "count">
  }
}

export const speechOf = (text: string) => ({ input: `Order: ${text}` })

/** Runs after the job was submitted and before the commit. */
export const charge = (text: string): void => {
  if (text === "declined") throw new Error("the card was declined")
}
