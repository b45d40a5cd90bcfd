import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../domain/index.ts"
import type { CreateOutcome, NewJob } from "../domain/acceptance.ts"

/**
 * Creates jobs inside a transaction of the embedding program. They exist if and only if that transaction commits, which then
 * wakes the workers of this installation. The adapter defines which handles are transactions; any other handle is a defect
 * (`TypeError`).
 *
 * It takes no lock that another caller's transaction needs, unless both use the same idempotency key, upload or scope. Two open
 * transactions do not see each other's jobs, so the queue cap, which is counted without a lock, may be exceeded by that many
 * jobs.
 */
export class CallerTransactions extends Context.Service<
  CallerTransactions,
  {
    /** Decides and writes like `JobStore.createJobs`, but takes effect only when the caller commits. */
    readonly createJobs: (
      transaction: unknown,
      jobs: ReadonlyArray<NewJob>,
    ) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>
    /** The same as a synchronous call, if the adapter's handles are synchronous. Throws `StoreUnavailable`. */
    readonly synchronous:
      | {
          readonly createJobs: (transaction: unknown, jobs: ReadonlyArray<NewJob>) => ReadonlyArray<CreateOutcome>
        }
      | undefined
  }
>()("@kiln/core/ports/CallerTransactions") {}
