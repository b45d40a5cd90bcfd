import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { RateLimitPolicy, StoreUnavailable } from "../domain/index.ts"
import type { TakenPortion } from "../domain/rules.ts"
import type { BucketRequest, RateLimitStore } from "../ports/index.ts"

/** The parts that all portions of a process have in common. */
export interface PortionSource {
  readonly store: RateLimitStore["Service"]
  /** Identifies this process among those that share the store. */
  readonly process: string
  /** Requests run here, so that their answers arrive even if the caller that needed them is gone. */
  readonly scope: Scope.Scope
  /** Milliseconds of the monotonic clock. */
  readonly now: () => number
  /** Milliseconds for which the store keeps a portion. */
  readonly ttlMs: number
  /** Milliseconds for which a portion is used: shorter than `ttlMs`, because clocks differ in speed. */
  readonly usableMs: number
}

/**
 * The tokens that this process holds of a bucket that all processes share. It takes them in portions, so that most uses write
 * nothing. Requests are sent one at a time, because each ends the portion that the process has.
 */
export class TokenPortion {
  readonly #source: PortionSource
  readonly #bucket: string
  #tokens = 0
  #endsAt = 0
  /** Requests with an unknown outcome. */
  #failures = 0
  #asking: Deferred.Deferred<void, StoreUnavailable> | undefined

  constructor(source: PortionSource, bucket: string) {
    this.#source = source
    this.#bucket = bucket
  }

  /** Returns the number of tokens that may be used at this time. */
  held(now: number): number {
    return now < this.#endsAt ? this.#tokens : 0
  }

  /** The rest of the portion, also after its end. */
  get tokens(): number {
    return this.#tokens
  }

  /** The time until which the tokens may be used. */
  get endsAt(): number {
    return this.#endsAt
  }

  /** The answer to the request in progress; `undefined` without one. */
  get answer(): Effect.Effect<void, StoreUnavailable> | undefined {
    return this.#asking && Deferred.await(this.#asking)
  }

  /** Uses one token. Must be called only while `held` is positive. */
  use(): void {
    this.#tokens -= 1
  }

  /**
   * Returns the rest of the portion, and takes the next one of up to `wanted` tokens. `onTaken` runs before the answer is passed on.
   * Joins the request in progress, if there is one.
   */
  exchange(
    policy: RateLimitPolicy,
    wanted: number,
    onTaken: (taken: TakenPortion) => Effect.Effect<void>,
  ): Effect.Effect<void, StoreUnavailable> {
    return Effect.suspend(() => {
      if (this.answer !== undefined) return this.answer
      const { now, scope, store, usableMs } = this.#source
      const answered = Deferred.makeUnsafe<void, StoreUnavailable>()
      this.#asking = answered
      const sentAt = now()
      const request = this.#request(policy, wanted)
      const taking = Effect.flatMap(store.takePortions([request]), ([taken]) => {
        if (taken === undefined) throw new TypeError("takePortions returned no portion")
        this.#tokens = taken.tokens
        this.#endsAt = sentAt + usableMs
        return onTaken(taken)
      })
      const settled = Effect.onExit(taking, (exit) =>
        Effect.sync(() => {
          // It may still reach the store. A new name keeps it from ending a later portion.
          if (Exit.isFailure(exit)) this.#failures += 1
          this.#asking = undefined
          Deferred.doneUnsafe(answered, Exit.asVoid(exit))
        }),
      )
      return Effect.andThen(Effect.forkIn(settled, scope, { startImmediately: true }), Deferred.await(answered))
    })
  }

  /** Returns the request that gives back the rest, for the end of the process; `undefined` if nothing is left. */
  giveBack(policy: RateLimitPolicy): BucketRequest | undefined {
    return this.#tokens === 0 ? undefined : this.#request(policy, 0)
  }

  #request(policy: RateLimitPolicy, wanted: number): BucketRequest {
    const unused = this.#tokens
    this.#tokens = 0
    const process = `${this.#source.process} ${this.#failures}`
    return { bucket: this.#bucket, policy, process, unused, wanted, ttlMs: this.#source.ttlMs }
  }
}
