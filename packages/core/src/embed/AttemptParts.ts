import * as Exit from "effect/Exit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { KindBug } from "../kinds/KindBug.ts"
import { isTaggedError } from "../domain/index.ts"
import type { AttemptError, AttemptFailed } from "../kinds/AttemptContext.ts"

/** Settles never. It is collected with everything that waits for it. */
const unsettled = <A>(): Promise<A> => new Promise<A>(() => undefined)

const noop = (): void => undefined

/** The promise of a part of an attempt: a step, a call of a provider, a file. It knows whether anything waits for it. */
class PartPromise<A> extends Promise<A> {
  /** Promises derived from it are ordinary ones. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  isAwaited = false

  // oxlint-disable-next-line unicorn/no-thenable -- a promise that notes that it is awaited
  override then<B = A, C = never>(
    onValue?: ((value: A) => B | PromiseLike<B>) | null,
    onError?: ((reason: unknown) => C | PromiseLike<C>) | null,
  ): Promise<B | C> {
    this.isAwaited = true
    return super.then(onValue, onError)
  }

  /** Prevents an unhandled rejection, without counting as something that waits. */
  quiet(): void {
    super.then(undefined, noop)
  }
}

interface Part {
  /** Names the part in messages: `step("mail")`. */
  readonly call: string
  /** Whether it leaves something behind: a value, a file, children. Such a part must have ended, even if code has raced it. */
  readonly isKept: boolean
  readonly promise: PartPromise<unknown>
  error?: { readonly thrown: unknown }
}

/** The parts of an attempt that have not ended, or have failed and nothing waited for them yet. */
export class AttemptParts {
  // Made for the first part: most attempts have none.
  #open: Set<Part> | undefined
  #isCut = false

  /** Whether the attempt was interrupted. Nothing settles from then on. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Whether a part has not ended. */
  get isRunning(): boolean {
    if (this.#open === undefined) return false
    for (const { error } of this.#open) if (error === undefined) return true
    return false
  }

  cut(): void {
    this.#isCut = true
    this.#open?.clear()
  }

  /** Returns the promise of a part. It never settles once the attempt is cut. */
  begin<A>(
    { call, isKept }: Pick<Part, "call" | "isKept">,
    run: () => Promise<Exit.Exit<A, unknown>>,
    thrownBy: (exit: Exit.Failure<A, unknown>) => unknown,
  ): Promise<A> {
    if (this.#isCut) return unsettled()
    const { promise, reject, resolve } = withResolvers<A>()
    const part: Part = { call, isKept, promise }
    const open = (this.#open ??= new Set())
    open.add(part)
    promise.quiet()
    const settle = (exit: Exit.Exit<A, unknown>): void => {
      if (this.#isCut) return
      if (Exit.isSuccess(exit)) {
        open.delete(part)
        return resolve(exit.value)
      }
      const thrown = thrownBy(exit)
      if (promise.isAwaited) open.delete(part)
      else part.error = { thrown }
      reject(thrown)
    }
    void run().then(settle, reject)
    return promise
  }

  /**
   * The bug of work that returns now although a part has not ended, or has failed and nothing waited for it; `undefined`
   * without one.
   */
  get bug(): KindBug | undefined {
    if (this.#open === undefined) return undefined
    for (const { call, error, isKept, promise } of this.#open) {
      if (promise.isAwaited && !(isKept && error === undefined)) continue
      if (error === undefined) return new KindBug(`run returned before ${call} had finished: await it`)
      const { thrown } = error
      return thrown instanceof KindBug
        ? thrown
        : new KindBug(`${call} failed, and run did not await it`, { cause: thrown })
    }
    return undefined
  }
}

const withResolvers = <A>() => {
  let resolve: (value: A) => void = noop
  let reject: (reason: unknown) => void = noop
  const promise = new PartPromise<A>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  return { promise, resolve, reject }
}

/** The cause of each error thrown to promise code, so that the code can catch and rethrow it without losing its meaning. */
const causes = new WeakMap<object, Cause.Cause<AttemptError>>()

/** Returns the error for promise code; `reason` if nothing failed and the step was interrupted. */
export const thrownFor = (cause: Cause.Cause<AttemptError>, reason: unknown): unknown => {
  const squashed: unknown = Cause.hasInterruptsOnly(cause) ? reason : Cause.squash(cause)
  // A primitive cannot be looked up again; it is still a defect.
  if (typeof squashed === "object" && squashed !== null) causes.set(squashed, cause)
  return squashed
}

/** Returns the failure that an error thrown by promise code stands for. */
export const failing = (thrown: unknown): Effect.Effect<never, AttemptError> => {
  const cause = typeof thrown === "object" && thrown !== null ? causes.get(thrown) : undefined
  if (cause !== undefined) return Effect.failCause(cause)
  return isTaggedError<AttemptFailed>(thrown, "AttemptFailed") ? Effect.fail(thrown) : Effect.die(thrown)
}
