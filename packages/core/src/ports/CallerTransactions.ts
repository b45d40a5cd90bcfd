import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"
import type { CreateOutcome, NewJob } from "../domain/acceptance.ts"

/**
 * Accepting jobs inside a transaction of the embedding program: they exist exactly if that transaction commits, and workers
 * of this installation are woken then. Which handles count as transactions is the adapter's to say; anything else is a
 * defect (`TypeError`).
 *
 * Nothing is locked that another caller's transaction needs, unless both use one idempotency key or one upload. So of two
 * open transactions neither sees the other's jobs, and the queue cap, which is counted without a lock, may be passed by as many.
 */
export class CallerTransactions extends Context.Service<
  CallerTransactions,
  {
    /** Decides and writes like `JobStore.createJobs`; whether it comes about is decided by the caller's commit. */
    readonly createJobs: (
      transaction: unknown,
      jobs: ReadonlyArray<NewJob>,
    ) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>
    /** The same without waiting for anything, where handles are synchronous; throws `StoreUnavailable`. */
    readonly synchronous:
      | {
          readonly createJobs: (transaction: unknown, jobs: ReadonlyArray<NewJob>) => ReadonlyArray<CreateOutcome>
        }
      | undefined
  }
>()("@kiln/core/ports/CallerTransactions") {}
