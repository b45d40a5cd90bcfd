import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import type { Kernel } from "./Kernel.ts"
import type { Network } from "./Network.ts"
import type { Profile } from "./Profile.ts"
import type { Served, Server } from "./Server.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** The request may or may not have taken effect; the caller does not know. */
export class NoAnswer extends Schema.TaggedError<NoAnswer>()("NoAnswer", {}) {}

/** Timeout of a caller's request, in milliseconds. */
const requestTimeoutMs = 15_000

/** Routes requests of callers to a running server; the response may be lost. */
export class RequestRouter {
  readonly servers: Array<Server> = []
  readonly #kernel: Kernel
  readonly #network: Network
  readonly #profile: Profile

  constructor(kernel: Kernel, network: Network, profile: Profile) {
    this.#kernel = kernel
    this.#network = network
    this.#profile = profile
  }

  /** Sends one request of a caller, as over HTTP. */
  ask<A, E>(
    caller: SimulatedProcess,
    what: string,
    request: (engine: Served) => Effect.Effect<A, E>,
  ): Effect.Effect<A, E | NoAnswer> {
    const { dice } = this.#kernel
    return Effect.callback<A, E | NoAnswer>((resume) => {
      let answered = false
      const answer = (exit: Exit.Exit<A, E | NoAnswer>) => {
        if (answered) return
        answered = true
        this.#kernel.after(this.#delay(), () => {
          this.#kernel.trace(
            () => `${caller.name} ${what}: ${Exit.isSuccess(exit) ? "ok" : String(Cause.squash(exit.cause))}`,
          )
          caller.deliver(() => resume(exit))
        })
      }
      this.#kernel.after(this.#delay(), () => {
        const server = dice.pickAny(
          this.servers.filter(({ engine, process }) => engine !== undefined && !process.isOver),
        )
        if (server?.engine === undefined) return answer(Exit.fail(new NoAnswer()))
        const { engine, process } = server
        process.deliver(() => {
          const fiber = process.run(Effect.suspend(() => request(engine)))
          const forget = process.onKilled(() => answer(Exit.fail(new NoAnswer())))
          fiber.addObserver((exit) => {
            forget()
            if (Exit.isFailure(exit) && Cause.hasDies(exit.cause))
              this.#kernel.violate("no call of the engine dies", `${what}: ${Cause.pretty(exit.cause)}`)
            answer(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause) ? Exit.fail(new NoAnswer()) : exit)
          })
          if (dice.chance(this.#network.faults.callerGoesAway))
            this.#kernel.after(dice.between(0, 3_000), () => process.deliver(() => fiber.interruptUnsafe()))
        })
      })
      this.#kernel.after(requestTimeoutMs, () => answer(Exit.fail(new NoAnswer())))
    })
  }

  #delay(): number {
    return this.#kernel.dice.between(0, this.#profile.latencyMs)
  }
}
