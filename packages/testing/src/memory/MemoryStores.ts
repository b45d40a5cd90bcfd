import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { StoreUnavailable } from "@kiln/core/domain"
import { takePortion } from "@kiln/core/rules"
import {
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  MinuteHistory,
  OperatorTokens,
  RateLimitStore,
  ScheduleStore,
  SecretStore,
  type StoreCapabilities,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { type AroundVerb, mapVerbs } from "./mapVerbs.ts"
import { makeMemoryDeliveryStore } from "./MemoryDeliveryStore.ts"
import { makeMemoryJobDirectory } from "./MemoryJobDirectory.ts"
import { makeMemoryJobStore } from "./MemoryJobStore.ts"
import { makeMemoryKeyDirectory } from "./MemoryKeyDirectory.ts"
import { makeMemoryMinuteHistory, makeMemoryOperatorTokens } from "./MemoryOperatorStores.ts"
import { makeMemoryScheduleStore } from "./MemoryScheduleStore.ts"
import { decodeState, encodeState } from "./encodeState.ts"
import { emptyState, keep, type MemoryState, step } from "./MemoryState.ts"
import { makeMemorySwitchboard } from "./MemorySwitchboard.ts"
import { makeMemoryUploadStore } from "./MemoryUploadStore.ts"

const call = { operation: "RateLimitStore.takePortions", nature: "write" } as const

/** `around` wraps each call. */
const makeMemoryRateLimitStore = (
  state: MemoryState,
  around: AroundVerb = (_, verb) => verb,
): RateLimitStore["Service"] =>
  RateLimitStore.of({
    takePortions: (requests) =>
      around(
        call,
        step((now) =>
          requests.map(({ bucket, ...request }) => {
            const { bucket: next, taken } = takePortion(state.rateBuckets.get(bucket), request, now)
            state.rateBuckets.set(bucket, keep(next))
            return taken
          }),
        ),
      ),
  })

/** The reference model of `SecretStore`. */
const makeMemorySecretStore = (state: MemoryState): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) =>
      step(() => {
        const secret = state.namedSecrets.get(name) ?? candidate.slice()
        state.namedSecrets.set(name, secret)
        // Bytes cannot be frozen.
        return secret.slice()
      }),
    find: (name) => step(() => state.namedSecrets.get(name)?.slice()),
    replace: (name, expected, value) =>
      step(() => {
        const known = state.namedSecrets.get(name)
        if (String(known) !== String(expected)) return false
        state.namedSecrets.set(name, value.slice())
        return true
      }),
    remove: (name) => step(() => state.namedSecrets.delete(name)),
  })

type Stores =
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | ScheduleStore
  | DeliveryStore
  | RateLimitStore
  | OperatorTokens
  | MinuteHistory

/** A place that stores the state of memory stores as one text. */
interface Persistence {
  /** The capabilities that the stores declare. */
  readonly capabilities: StoreCapabilities
  /** Returns the text last saved; `undefined` before the first save. */
  readonly load: Effect.Effect<string | undefined, unknown>
  /**
   * Replaces the saved text, and returns when it is as durable as the capabilities say. After a failure, `load` returns the old
   * text or the new one, never a part. It is never called concurrently.
   */
  readonly save: (text: string) => Effect.Effect<void, unknown>
}

/**
 * All record stores in one process's memory: the reference model that every other adapter is
 * compared with. Store time is the Effect `Clock`, and never goes backwards while the process lives (`StoreTime`).
 */
export const MemoryStores = {
  /** Each build is a new, empty store, shared by its ports. Nothing survives the process. */
  layer: Layer.effectContext(Effect.sync(() => portsOf(emptyState()))),

  /**
   * The same stores with persisted state: it is loaded when the layer is built, and every verb that changes it saves it before it
   * returns. A verb whose change cannot be saved fails with `StoreUnavailable`, and the change is not visible. Verbs run one at a
   * time and each saves everything, so this suits small states, examples and tests.
   */
  layerPersisted: (persistence: Persistence): Layer.Layer<Stores, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const text = yield* Effect.mapError(persistence.load, unavailable("MemoryStores.load"))
        const state = yield* Effect.try({
          try: () => (text === undefined ? emptyState() : decodeState(text)),
          catch: unavailable("MemoryStores.load"),
        })
        const commit = yield* makeCommit(state, persistence)
        const jobs = { ...makeMemoryJobStore(state), capabilities: persistence.capabilities }
        return Context.make(JobStore, mapVerbs("JobStore", jobs, commit)).pipe(
          Context.add(JobDirectory, mapVerbs("JobDirectory", makeMemoryJobDirectory(state), commit)),
          Context.add(UploadStore, mapVerbs("UploadStore", makeMemoryUploadStore(state), commit)),
          Context.add(KeyDirectory, mapVerbs("KeyDirectory", makeMemoryKeyDirectory(state), commit)),
          Context.add(Switchboard, mapVerbs("Switchboard", makeMemorySwitchboard(state), commit)),
          Context.add(SecretStore, mapVerbs("SecretStore", makeMemorySecretStore(state), commit)),
          Context.add(ScheduleStore, mapVerbs("ScheduleStore", makeMemoryScheduleStore(state), commit)),
          Context.add(DeliveryStore, mapVerbs("DeliveryStore", makeMemoryDeliveryStore(state), commit)),
          Context.add(RateLimitStore, makeMemoryRateLimitStore(state, commit)),
          Context.add(OperatorTokens, makeMemoryOperatorTokens(state, commit)),
          Context.add(MinuteHistory, makeMemoryMinuteHistory(state, commit)),
        )
      }),
    ),
}

const stateOfJobs = new WeakMap<JobStore["Service"], MemoryState>()

/** Returns separate memory stores with the same content, like a restored backup; `undefined` if these are not memory stores. */
export const copyMemoryStores = (jobs: JobStore["Service"]): Context.Context<Stores> | undefined => {
  const state = stateOfJobs.get(jobs)
  return state && portsOf(decodeState(encodeState(state)))
}

/** Returns the ports over one state. */
export const portsOf = (state: MemoryState): Context.Context<Stores> => {
  const jobs = makeMemoryJobStore(state)
  stateOfJobs.set(jobs, state)
  return Context.make(JobStore, jobs).pipe(
    Context.add(JobDirectory, makeMemoryJobDirectory(state)),
    Context.add(UploadStore, makeMemoryUploadStore(state)),
    Context.add(KeyDirectory, makeMemoryKeyDirectory(state)),
    Context.add(Switchboard, makeMemorySwitchboard(state)),
    Context.add(SecretStore, makeMemorySecretStore(state)),
    Context.add(ScheduleStore, makeMemoryScheduleStore(state)),
    Context.add(DeliveryStore, makeMemoryDeliveryStore(state)),
    Context.add(RateLimitStore, makeMemoryRateLimitStore(state)),
    Context.add(OperatorTokens, makeMemoryOperatorTokens(state)),
    Context.add(MinuteHistory, makeMemoryMinuteHistory(state)),
  )
}

const unavailable =
  (operation: string) =>
  (cause: unknown): StoreUnavailable =>
    new StoreUnavailable({ operation, cause })

/** Runs verbs one at a time, including reads, so that none sees unsaved changes. */
const makeCommit = Effect.fnUntraced(function* (state: MemoryState, { save }: Persistence) {
  const turn = Semaphore.makeUnsafe(1)
  let saved = encodeState(state)
  let closed = false
  yield* Effect.addFinalizer(() => turn.withPermits(1)(Effect.sync(() => (closed = true))))

  const commit: AroundVerb = ({ nature, operation }, verb) =>
    Effect.gen(function* () {
      if (closed) return yield* Effect.fail(unavailable(operation)("the store is closed"))
      const answer = yield* verb
      if (nature === "read") return answer
      const text = encodeState(state)
      if (text === saved) return answer
      yield* Effect.mapError(save(text), unavailable(operation))
      saved = text
      return answer
    }).pipe(
      Effect.tapCause(() => Effect.sync(() => Object.assign(state, decodeState(saved)))),
      // Uninterruptible from the change to the answer: otherwise the state would be ahead of the saved text.
      Effect.uninterruptible,
      turn.withPermits(1),
    )
  return commit
})
