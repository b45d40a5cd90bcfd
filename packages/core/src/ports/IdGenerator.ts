import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type { IdByPrefix, IdPrefix } from "../domain/Ids.ts"
import { formatId } from "../domain/index.ts"

const counterLimit = 2 ** 42

/** Random bytes fetched at once: enough for about 2,000 identifiers. */
const poolBytes = 8_192

/**
 * Returns a generator of UUIDv7s (16 bytes each) from Unix milliseconds and secure random bytes. Each one sorts after the one
 * before: within a millisecond, and while the clock stands still or goes back, a 42-bit counter with a random start grows
 * (RFC 9562, section 6.2, method 1). Below the counter, 32 bits of each are random. The bytes are valid until the next call.
 */
export const makeUuidV7 = (randomBytes: (size: number) => Uint8Array): ((unixMs: number) => Uint8Array) => {
  let pool: DataView = new DataView(new ArrayBuffer(0))
  let used = 0
  const random32 = (): number => {
    if (used + 4 > pool.byteLength) {
      const { buffer, byteLength, byteOffset } = randomBytes(poolBytes)
      pool = new DataView(buffer, byteOffset, byteLength)
      used = 0
    }
    used += 4
    return pool.getUint32(used - 4)
  }
  // The highest bit starts at 0, so that a millisecond has room for 2^41 identifiers.
  const counterStart = (): number => (random32() % 2 ** 11) * 2 ** 30 + (random32() % 2 ** 30)
  const bytes = new Uint8Array(16)
  const uuid = new DataView(bytes.buffer)
  let lastMs = -1
  let counter = 0

  return (unixMs) => {
    const ms = Math.max(0, Math.trunc(unixMs))
    if (ms > lastMs) {
      lastMs = ms
      counter = counterStart()
    } else if (counter + 1 < counterLimit) {
      counter += 1
    } else {
      lastMs += 1
      counter = counterStart()
    }
    const high = Math.floor(counter / 2 ** 30)
    uuid.setUint32(0, Math.floor(lastMs / 2 ** 16))
    uuid.setUint16(4, lastMs % 2 ** 16)
    uuid.setUint16(6, 0x70_00 + high)
    uuid.setUint32(8, 2 ** 31 + (counter - high * 2 ** 30))
    uuid.setUint32(12, random32())
    return bytes
  }
}

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
