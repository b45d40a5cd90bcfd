import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { formatId } from "../domain/index.ts"
import type { IdByPrefix, IdPrefix } from "../domain/Ids.ts"
import { makeUuidV7 } from "../domain/uuidV7.ts"

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
    Effect.map(Clock.Clock, (clock) => {
      const uuidV7 = makeUuidV7(SecureRandom.randomBytesUnsafe)
      return IdGenerator.of({ next: (prefix) => formatId(prefix, uuidV7(clock.currentTimeMillisUnsafe())) })
    }),
  )
}
