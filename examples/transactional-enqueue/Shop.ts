import type { BuiltInKind, JobId, OperatorVerbs } from "@kiln/core"

/** An order that was committed, and the job that came to exist with it. */
export interface Ordered {
  readonly jobId: JobId
  /** When the commit was asked for, by `performance.now()`. */
  readonly committedAt: number
}

/** A program with its own table, whose orders are read aloud by jobs. */
export interface Shop extends AsyncDisposable {
  /** One transaction: the order's row and its job. Rolls both back where the text is `declined`. */
  readonly order: (text: string) => Promise<Ordered>
  readonly countOrders: () => Promise<number>
  readonly engine: {
    readonly on: (type: "started", listener: (event: { readonly jobId: JobId }) => void) => () => void
    readonly wait: (jobId: string) => Promise<{ readonly status: string }>
    readonly operator: Pick<OperatorVerbs<BuiltInKind>, "count">
  }
}

export const speechOf = (text: string) => ({ input: `Order: ${text}` })

/** What happens after the job was submitted, and before the transaction is committed. */
export const charge = (text: string): void => {
  if (text === "declined") throw new Error("the card was declined")
}
