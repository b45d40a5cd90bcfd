import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Grant } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { CallerTransactions, IdGenerator } from "../ports/index.ts"
import { type Accepted, acceptedOf } from "./createJob.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { Fingerprint } from "./Fingerprint.ts"
import { newJobOf, type Placement, prepareJob, readDraft } from "./prepareJob.ts"

/** What is asked for when a job is to be accepted. */
export interface Asked {
  readonly grant: Grant
  readonly kind: JobKind
  readonly request: unknown
  readonly idempotencyKey: string
  readonly placement?: Placement | undefined
}

const draftOf = ({ grant, idempotencyKey, kind, placement, request }: Asked) =>
  readDraft(grant, kind, request, idempotencyKey, placement)

/**
 * Accepts a job inside a transaction of the caller's: it exists exactly if that commits, and workers are woken then. What is
 * answered holds as long as the transaction does.
 */
export const createJobIn = Effect.fnUntraced(function* (transaction: unknown, asked: Asked) {
  const transactions = yield* Effect.serviceOption(CallerTransactions)
  if (transactions._tag === "None")
    return yield* Effect.die(new TypeError("this store takes no transactions of the caller's"))
  const draft = yield* Effect.fromResult(draftOf(asked))
  const [outcome] = yield* transactions.value.createJobs(transaction, [yield* prepareJob(draft)])
  return yield* Effect.catchTag(Effect.fromResult(acceptedOf(outcome)), "JobNotRetryable", Effect.die)
})

/** The same for synchronous handles, as a function that throws what `createJobIn` fails with. */
export const makeCreateJobInSync = Effect.gen(function* () {
  const transactions = yield* Effect.serviceOption(CallerTransactions)
  const synchronous = transactions._tag === "None" ? undefined : transactions.value.synchronous
  const config = yield* EngineConfig
  const fingerprint = yield* Fingerprint
  const ids = yield* IdGenerator
  const context = yield* Effect.context()
  return (transaction: unknown, asked: Asked): Accepted => {
    if (synchronous === undefined) throw new TypeError("this store takes no synchronous transactions of the caller's")
    const draft = Result.getOrThrow(draftOf(asked))
    const job = newJobOf(draft, config, {
      id: Effect.runSyncWith(context)(ids.next("job")),
      fingerprint: fingerprint.ofSync(draft.kind.name, draft.stored, synchronous.hmacSha256),
    })
    const [outcome] = synchronous.createJobs(transaction, [job])
    return Result.getOrThrow(acceptedOf(outcome))
  }
})
