import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { authorize, type Grant, type Principal } from "@kiln/core/domain"
import type { RequestRouter } from "../RequestRouter.ts"
import type { Kernel } from "../Kernel.ts"
import type { Coverage } from "../Coverage.ts"
import type { Served } from "../Server.ts"
import type { SimulatedKinds } from "../SimulatedKinds.ts"
import type { SimulatedProcess } from "../SimulatedProcess.ts"
import type { SignalBooks } from "../SignalBooks.ts"
import type { StreamBooks } from "../StreamBooks.ts"
import type { Watch } from "../Watch.ts"

/** State of a caller. */
export class CallerContext {
  readonly process: SimulatedProcess
  readonly principal: Principal
  /** Somebody else of the same project. */
  readonly stranger: Principal
  readonly kernel: Kernel
  readonly door: RequestRouter
  readonly watch: Watch
  readonly coverage: Coverage
  readonly kinds: SimulatedKinds
  readonly streams: StreamBooks
  readonly signals: SignalBooks

  constructor(
    process: SimulatedProcess,
    principal: Principal,
    parts: {
      readonly kernel: Kernel
      readonly door: RequestRouter
      readonly watch: Watch
      readonly coverage: Coverage
      readonly kinds: SimulatedKinds
      readonly streams: StreamBooks
      readonly signals: SignalBooks
    },
  ) {
    this.process = process
    this.principal = principal
    this.stranger = { ...principal, keyId: "key_00000000000000000000000000" }
    this.kernel = parts.kernel
    this.door = parts.door
    this.watch = parts.watch
    this.coverage = parts.coverage
    this.kinds = parts.kinds
    this.streams = parts.streams
    this.signals = parts.signals
  }

  /** Asks again and again until there is an answer. */
  insist<A, E>(what: string, request: (engine: Served) => Effect.Effect<A, E>): Effect.Effect<A> {
    return this.door
      .ask(this.process, what, request)
      .pipe(Effect.retry({ schedule: Schedule.spaced("1 second") }), Effect.orDie)
  }

  get grant(): Grant {
    const grant = authorize(this.principal, this.principal.scopes[0] ?? "")
    if (grant === undefined) throw new Error("the principal has no scope")
    return grant
  }
}

/** SHA-256, lower-case hex. */
export const digest = (chunks: ReadonlyArray<Uint8Array>): string => {
  const hash = createHash("sha256")
  for (const chunk of chunks) hash.update(chunk)
  return hash.digest("hex")
}
