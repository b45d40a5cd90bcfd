import { givenField } from "@kiln/core/domain"
import { type EmbeddedServices, Operator } from "@kiln/core/effect"
import { JobKinds, switchesOf } from "@kiln/core/kinds"
import { IdGenerator, Switchboard } from "@kiln/core/ports"
import { Providers } from "@kiln/core/providers"
import * as Effect from "effect/Effect"
import type { TestPrice } from "./TestEngine.ts"

/** Longer than any test lets pass. */
const forEverMs = 100 * 366 * 24 * 3_600_000
const aCent = "0.01"

/** Sets every price a kind names and turns every switch on. */
export const openForLive = (
  prices: Readonly<Record<string, TestPrice>>,
): Effect.Effect<void, unknown, EmbeddedServices> =>
  Effect.gen(function* () {
    const operator = yield* Operator
    const unitAmounts = new Map<string, Record<string, string>>()
    for (const { gate, meters } of yield* JobKinds) {
      if (gate.price === null) continue
      const cents = Object.fromEntries(meters.map((meter) => [meter, aCent]))
      unitAmounts.set(gate.price, { ...unitAmounts.get(gate.price), ...cents })
    }
    const all = [...unitAmounts].map(([name, amounts]) => ({ name, currency: "usd", unitAmounts: amounts }))
    const given = Object.entries(prices).map(([name, price]) => ({ name, ...price }))
    for (const price of [...all.filter(({ name }) => !Object.hasOwn(prices, name)), ...given]) {
      yield* operator.setPrice(price)
    }
    yield* Effect.forEach(switchesOf(yield* JobKinds), (name) => operator.setSwitch(name, true), { discard: true })
  })

/** Publishes the kinds that are served live, like a worker that is always running. */
export const serveLiveForEver: Effect.Effect<void, unknown, EmbeddedServices> = Effect.gen(function* () {
  const { live } = yield* Providers
  const served = (yield* JobKinds).filter((kind) =>
    kind.providers.some((names) => names.every((name) => givenField(live, name) !== undefined)),
  )
  const workerId = (yield* IdGenerator).next("req")
  const liveKinds = served.map((kind) => kind.name)
  yield* (yield* Switchboard).publishWorker({ workerId, liveKinds, providers: [], ttlMs: forEverMs })
})
