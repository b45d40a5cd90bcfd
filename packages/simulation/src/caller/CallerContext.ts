import { createHash } from "node:crypto"
import { Effect, Schedule } from "effect"
import { authorize, type Grant, type JsonObject, type Principal, type UploadId } from "@kiln/core/domain"
import type { JobKind } from "@kiln/core/effect"
import type { Frontdoor } from "../Frontdoor.ts"
import type { Kernel } from "../Kernel.ts"
import type { Reached } from "../Reached.ts"
import type { Served } from "../Server.ts"
import type { SimulatedProcess } from "../SimulatedProcess.ts"
import type { Watch } from "../Watch.ts"

/** What a caller has in hand. */
export class CallerContext {
  readonly process: SimulatedProcess
  readonly principal: Principal
  /** Somebody else of the same project. */
  readonly stranger: Principal
  readonly kernel: Kernel
  readonly door: Frontdoor
  readonly watch: Watch
  readonly reached: Reached

  constructor(
    process: SimulatedProcess,
    principal: Principal,
    parts: {
      readonly kernel: Kernel
      readonly door: Frontdoor
      readonly watch: Watch
      readonly reached: Reached
    },
  ) {
    this.process = process
    this.principal = principal
    this.stranger = { ...principal, keyId: "key_00000000000000000000000000" }
    this.kernel = parts.kernel
    this.door = parts.door
    this.watch = parts.watch
    this.reached = parts.reached
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

/** A valid request of a kind. */
export const inputOf = (kind: JobKind, uploadId: UploadId | null, text: string): JsonObject => {
  switch (kind.name) {
    case "transcription":
      return { uploadId }
    case "voice_turn":
      return { uploadId, maxOutputTokens: 7 }
    case "speech_synthesis":
      return { input: `say ${text}` }
    default:
      return { prompt: `draw ${text}` }
  }
}

/** SHA-256, lower-case hex. */
export const digest = (chunks: ReadonlyArray<Uint8Array>): string => {
  const hash = createHash("sha256")
  for (const chunk of chunks) hash.update(chunk)
  return hash.digest("hex")
}
