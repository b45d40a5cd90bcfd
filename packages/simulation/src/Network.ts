import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as References from "effect/References"
import type { Kernel } from "./Kernel.ts"
import type { Faults, Profile } from "./Profile.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** Something processes talk to over a line that may fail. */
export interface Remote {
  readonly name: string
  /** Out of everybody's reach. */
  away: boolean
}

/** One remote call: its effect at the remote, and the caller's result if the connection fails. */
export interface RemoteCall<A, E, F> {
  readonly remote: Remote
  readonly operation: string
  /** Runs immediately, at the remote's time, even if the caller disappears. */
  readonly step: Effect.Effect<A, E>
  readonly lost: (cause: string) => F
  /** Observes the effect of the step before anything else happens. */
  readonly observe?: ((exit: Exit.Exit<A, E>) => void) | undefined
}

/** The network between processes and shared services. Decides for each call whether and when it gets through. */
export class Network {
  faults: Faults
  readonly #kernel: Kernel
  readonly #profile: Profile
  readonly #remoteContext: Context.Context<never>
  /** When a process last failed to get through to which remote, or had to wait long. */
  readonly #cutOffAt = new Map<SimulatedProcess, Map<string, number>>()

  constructor(kernel: Kernel, profile: Profile, store: SimulatedProcess) {
    this.#kernel = kernel
    this.#profile = profile
    this.faults = profile.faults
    this.#remoteContext = Context.make(Clock.Clock, store.clock).pipe(Context.add(References.MinimumLogLevel, "None"))
  }

  /** Returns whether a call between this process and that remote has failed since then. */
  cutOffSince(process: SimulatedProcess, remote: string, time: number): boolean {
    return (this.#cutOffAt.get(process)?.get(remote) ?? Number.NEGATIVE_INFINITY) >= time
  }

  /** Runs a step at the remote, now. */
  perform<A, E>(step: Effect.Effect<A, E>): Exit.Exit<A, E> {
    return Effect.runSyncExit(Effect.provideContext(step, this.#remoteContext))
  }

  call<A, E, F>(process: SimulatedProcess, call: RemoteCall<A, E, F>): Effect.Effect<A, E | F> {
    return Effect.suspend((): Effect.Effect<A, E | F> => {
      const fate = this.#fate(call.remote)
      if (fate === "through" && this.#profile.latencyMs === 0) return this.#perform(process, call)
      return this.#send(process, call, fate)
    })
  }

  #fate(remote: Remote): "through" | "refused" | "answer lost" | "slow" {
    const { dice } = this.#kernel
    if (remote.away || dice.chance(this.faults.refused)) return "refused"
    if (dice.chance(this.faults.answerLost)) return "answer lost"
    return dice.chance(this.faults.slow) ? "slow" : "through"
  }

  #perform<A, E, F>(process: SimulatedProcess, call: RemoteCall<A, E, F>): Exit.Exit<A, E> {
    const exit = this.perform(call.step)
    this.#kernel.trace(() => `${process.name} ${call.operation} ${describe(exit)}`)
    call.observe?.(exit)
    return exit
  }

  #send<A, E, F>(
    process: SimulatedProcess,
    call: RemoteCall<A, E, F>,
    fate: "through" | "refused" | "answer lost" | "slow",
  ): Effect.Effect<A, E | F> {
    const { dice } = this.#kernel
    const delay = () => dice.between(0, this.#profile.latencyMs)
    // From the request to the answer, or to its absence.
    const cutOff = () => {
      if (fate === "through" && !call.remote.away) return
      const ofProcess = this.#cutOffAt.get(process) ?? new Map<string, number>()
      this.#cutOffAt.set(process, ofProcess.set(call.remote.name, this.#kernel.now))
    }
    return Effect.callback<A, E | F>((resume) => {
      let abandoned = false
      cutOff()
      const answer = (exit: Exit.Exit<A, E | F>, afterMs: number) => {
        this.#kernel.after(afterMs, () => {
          cutOff()
          process.deliver(() => resume(exit))
        })
      }
      this.#kernel.after(delay(), () => {
        cutOff()
        // The message arrives or is lost; its sender may be gone by then.
        if ((abandoned || process.isOver) && dice.chance(0.5)) return
        if (fate === "refused" || call.remote.away) {
          this.#kernel.trace(() => `${process.name} ${call.operation} does not get through`)
          return answer(Exit.fail(call.lost("refused")), delay())
        }
        const exit = this.#perform(process, call)
        if (fate === "answer lost") return answer(Exit.fail(call.lost("the answer was lost")), delay())
        answer(exit, fate === "slow" ? dice.between(1, 2 * this.#profile.settings.leaseDurationMs) : delay())
      })
      return Effect.sync(() => {
        abandoned = true
      })
    })
  }
}

const describe = (exit: Exit.Exit<unknown, unknown>): string =>
  Exit.isSuccess(exit) ? "done" : `failed: ${String(Cause.squash(exit.cause))}`
