import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { isSignalName, maxSignalValueLength, signalNameRule } from "../domain/Parking.ts"
import { isId, type JobId, type Json, type StoreUnavailable } from "../domain/index.ts"
import { maxSignals } from "../domain/rules.ts"
import { InvalidRequest, JobFinished, JobNotFound } from "../domain/Errors.ts"
import { asJson, jsonProblem } from "../kinds/readBySchema.ts"
import {
  CallerTransactions,
  JobStore,
  type SignalOutcome,
  type SignalOwner,
  type SignalRequest,
  WakeUp,
} from "../ports/index.ts"

/** A signal, before it is checked. */
export interface AskedSignal {
  readonly jobId: string
  readonly name: string
  readonly value: unknown
  /** The owner that the job must have; any if omitted, for callers that may see all jobs. */
  readonly owner?: SignalOwner | undefined
}

/** An accepted signal. `isFirst`: its value is the one that the job gets; false if another value came before under this name. */
export interface AcceptedSignal {
  readonly isFirst: boolean
}

export type SignalError = JobNotFound | JobFinished | InvalidRequest

/** Checks a signal. Throws `JobNotFound`, and `InvalidRequest` for its name and value. */
const requestOf = ({ jobId, name, owner, value = null }: AskedSignal): SignalRequest => {
  if (!isId("job", jobId)) throw new JobNotFound()
  if (!isSignalName(name))
    throw new InvalidRequest({ errors: [{ field: "name", reason: "characters", message: signalNameRule }] })
  const json = asJson(value)
  if (json === undefined)
    throw new InvalidRequest({
      errors: [{ field: "value", reason: "type", message: `must be JSON. ${jsonProblem("value", value)}` }],
    })
  if (json.length > maxSignalValueLength)
    throw new InvalidRequest({
      errors: [
        {
          field: "value",
          reason: "max_length",
          message: `must have at most ${maxSignalValueLength} characters of JSON`,
        },
      ],
    })
  return { jobId: jobId satisfies JobId, name, value: JSON.parse(json) as Json, owner }
}

/** Turns the outcome of a store into the result. Throws what a signal can be refused with. */
const acceptedBy = (outcome: SignalOutcome | undefined): AcceptedSignal => {
  switch (outcome) {
    case "Accepted":
    case "Repeated":
      return { isFirst: true }
    case "Superseded":
      return { isFirst: false }
    case "Finished":
      throw new JobFinished()
    case "Full":
      throw new InvalidRequest({
        errors: [{ field: "name", reason: "max", message: `the job keeps ${maxSignals} signals already` }],
      })
    case "NotFound":
      throw new JobNotFound()
    case undefined:
      throw new TypeError("signalJobs returned no outcome for a signal")
  }
}

const isRefusal = (error: unknown): error is SignalError =>
  error instanceof JobNotFound || error instanceof JobFinished || error instanceof InvalidRequest

const attempt = <A>(run: () => A): Effect.Effect<A, SignalError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(run())
    } catch (error) {
      return isRefusal(error) ? Effect.fail(error) : Effect.die(error)
    }
  })

/** Keeps a signal of a job, and wakes the job if it waits for it. */
export const signalJob = (asked: AskedSignal) =>
  Effect.gen(function* () {
    const store = yield* JobStore
    const request = yield* attempt(() => requestOf(asked))
    const [outcome] = yield* store.signalJobs([request])
    if (outcome === "Accepted") yield* (yield* WakeUp).notify
    return yield* attempt(() => acceptedBy(outcome))
  })

/** The operations that signal jobs in a transaction of the caller. */
export interface SignalJobIn {
  readonly signalJobIn: (
    transaction: unknown,
    asked: AskedSignal,
  ) => Effect.Effect<AcceptedSignal, SignalError | StoreUnavailable>
  readonly signalJobInSync: (transaction: unknown, asked: AskedSignal) => AcceptedSignal
}

export const makeSignalJobIn: Effect.Effect<SignalJobIn> = Effect.gen(function* () {
  const transactions = Option.getOrUndefined(yield* Effect.serviceOption(CallerTransactions))
  return {
    signalJobIn: (transaction, asked) =>
      Effect.suspend(() => {
        if (transactions === undefined)
          throw new TypeError(
            "this store does not accept callers' transactions: use sqliteStore() or postgresStore(), or leave out transaction",
          )
        return Effect.flatMap(
          attempt(() => requestOf(asked)),
          (request) =>
            Effect.flatMap(transactions.signalJobs(transaction, [request]), ([outcome]) =>
              attempt(() => acceptedBy(outcome)),
            ),
        )
      }),
    signalJobInSync: (transaction, asked) => {
      const synchronous = transactions?.synchronous
      if (synchronous === undefined)
        throw new TypeError("this store does not accept synchronous transactions of callers: use sqliteStore()")
      return acceptedBy(synchronous.signalJobs(transaction, [requestOf(asked)])[0])
    },
  }
})
