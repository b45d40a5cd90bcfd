import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { natureOf, type StorePortName } from "@kiln/core/ports"

/** One call of a verb. */
export interface VerbCall {
  /** The port and its verb: `JobStore.createJobs`. */
  readonly operation: string
  readonly nature: ReturnType<typeof natureOf>
}

/** Wraps each call of a verb. */
export type AroundVerb = <A>(
  call: VerbCall,
  verb: Effect.Effect<A, StoreUnavailable>,
) => Effect.Effect<A, StoreUnavailable>

type Verb = (...input: ReadonlyArray<unknown>) => Effect.Effect<unknown, StoreUnavailable>

/** Returns the port with each call of each verb wrapped. Throws `TypeError` for a verb that is not declared. */
export const mapVerbs = <Port extends object>(port: StorePortName, service: Port, around: AroundVerb): Port => {
  const members: ReadonlyArray<readonly [string, unknown]> = Object.entries(service)
  const mapped = members.map(([name, member]) => {
    if (!Effect.isEffect(member) && typeof member !== "function") return [name, member] as const
    const call = { operation: `${port}.${name}`, nature: natureOf(port, name) }
    if (Effect.isEffect(member)) return [name, around(call, member as ReturnType<Verb>)] as const
    const verb = member as Verb
    return [name, (...input: ReadonlyArray<unknown>) => around(call, verb(...input))] as const
  })
  return Object.fromEntries(mapped) as Port
}
