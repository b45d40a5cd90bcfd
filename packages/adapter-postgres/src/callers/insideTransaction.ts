import * as Effect from "effect/Effect"
import { StoreUnavailable } from "@kiln/core/domain"
import type { Database } from "../Database.ts"
import { meaningOf } from "../postgresErrors.ts"
import { Session, Transaction, type Wire } from "../Session.ts"
import { readTime } from "../transactionsOf.ts"
import type { CallerConnection } from "./CallerConnection.ts"

/** The steps that a submission in a caller's transaction takes. */
export type Steps = Pick<Database, "read" | "write" | "writeIf">

/**
 * Runs the steps in the caller's own transaction, for databases with one connection, on which others would wait for the caller. What they
 * write is undone with the transaction, and nobody could have seen it.
 */
export const insideTransaction = (connection: CallerConnection, given: Wire): Steps => {
  const wire = { ...given, prepared: false }
  const run = <A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
    Effect.tryPromise({ try: () => work(new Session(connection, wire)), catch: (error) => error }).pipe(
      Effect.catch((cause) =>
        meaningOf(cause) === "defect" ? Effect.die(cause) : Effect.fail(new StoreUnavailable({ operation, cause })),
      ),
    )
  const write: Steps["write"] = (operation, work) =>
    run(operation, async (session) => {
      const tx = new Transaction(connection, wire, await readTime(session))
      const value = await work(tx)
      await tx.lastAnswers()
      return value
    })
  return {
    read: run,
    write,
    writeIf: (operation, look, work, nothing) =>
      Effect.flatMap(run(operation, look), (any) => (any ? write(operation, work) : Effect.succeed(nothing))),
  }
}
