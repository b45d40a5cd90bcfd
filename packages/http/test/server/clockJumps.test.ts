import { IncomingMessage, ServerResponse } from "node:http"
import { Socket } from "node:net"
import { expect, it } from "@effect/vitest"
import { type Clock, Effect } from "effect"
import { makeConfirm } from "../../src/server/admission.ts"
import { asStep, Exchange } from "../../src/server/Exchange.ts"
import { NodeSource } from "../../src/server/NodeSource.ts"

/** A clock that shows this time of day, that long after the process started. */
const at = (wallMs: number, monotonicMs: number): Clock.Clock => {
  const wallNanos = () => BigInt(wallMs) * 1_000_000n
  const nanos = () => BigInt(monotonicMs) * 1_000_000n
  return {
    currentTimeMillisUnsafe: () => wallMs,
    currentTimeMillis: Effect.succeed(wallMs),
    currentTimeNanosUnsafe: wallNanos,
    currentTimeNanos: Effect.sync(wallNanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: () => Effect.never,
  }
}

it.effect("a key is checked again after a slow body, even if the wall clock was set back meanwhile", () =>
  Effect.gen(function* () {
    const hour = 3_600_000
    let looks = 0
    const confirm = makeConfirm(() => {
      looks += 1
      return Effect.succeed({ projectId: "prj_a", keyId: "key_a", mode: "live", scopes: [] })
    })
    const source = new IncomingMessage(new Socket())
    const exchange = new Exchange("req_x", new NodeSource(source, new ServerResponse(source)))
    exchange.admittedAt = 1_000
    yield* asStep(confirm(exchange, at(10 * hour, 1_500)))
    expect(looks, "of a quick one it is known").toBe(0)
    yield* asStep(confirm(exchange, at(9 * hour, 9_000)))
    expect(looks).toBe(1)
    yield* asStep(confirm(exchange, at(12 * hour, 1_500)))
    expect(looks).toBe(1)
  }),
)
