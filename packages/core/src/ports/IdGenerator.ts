import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { type IdByPrefix, type IdPrefix, makeIds } from "../domain/Ids.ts"

/** Creates identifiers. It is a port so that simulations can replay them. */
export class IdGenerator extends Context.Service<
  IdGenerator,
  {
    /** Returns a new identifier, at once. */
    readonly next: <P extends IdPrefix>(prefix: P) => IdByPrefix[P]
  }
>()("@kiln/core/ports/IdGenerator") {
  /** UUIDv7s from the `Clock` and secure random bytes. */
  static readonly layer: Layer.Layer<IdGenerator> = Layer.effect(
    IdGenerator,
    Effect.map(Clock.Clock, (clock) => IdGenerator.of({ next: makeIds(clock, SecureRandom.randomBytesUnsafe) })),
  )
}
