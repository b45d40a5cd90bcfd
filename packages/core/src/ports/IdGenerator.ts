import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { formatId } from "../domain/index.ts"
import type { IdByPrefix, IdPrefix } from "../domain/Ids.ts"

/** Creates identifiers. It is a port so that simulations can replay them. */
export class IdGenerator extends Context.Service<
  IdGenerator,
  {
    readonly next: <P extends IdPrefix>(prefix: P) => Effect.Effect<IdByPrefix[P]>
  }
>()("@kiln/core/ports/IdGenerator") {
  /** UUIDv7 from the `Clock` and secure random bytes. */
  static readonly layer = Layer.effect(
    IdGenerator,
    Effect.gen(function* () {
      const random = yield* SecureRandom.SecureRandom
      return IdGenerator.of({
        next: (prefix) => Effect.map(random.uuidV7({ format: "bytes" }), (uuid) => formatId(prefix, uuid)),
      })
    }),
  ).pipe(Layer.provide(SecureRandom.layerWebCrypto))
}
