import * as Effect from "effect/Effect"
import { type Board, missingPrerequisites, type StoreUnavailable } from "@kiln/core/domain"
import { builtInKinds } from "@kiln/core/kinds"
import type { ApiKeyRecord, StoreInspection } from "@kiln/core/ports"
import { priceCommand } from "../commands/meterFlags.ts"
import { switchRemedy } from "./switchRemedy.ts"
import { type Check, skipped, graded, type GradedFinding } from "./Check.ts"

const name = "live"

/** A key that works at this time. */
export const isActive = ({ expiresAt, revokedAt }: ApiKeyRecord, now: number): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > now)

const remedyOf = (missing: string, forcedOff: ReadonlyArray<string>): string => {
  const [what = "", which = ""] = missing.split(":")
  switch (what) {
    case "price":
      return `${priceCommand(which)}, then kiln price activate ${which}; kiln price list shows what is there`
    case "switch":
      return switchRemedy(which, forcedOff)
    default:
      return "set KILN_PROVIDER, or providers in KILN_CONFIG, and start a worker with it"
  }
}

/** Checks that live jobs would be accepted, if there are live keys. `forcedOff`: switches that the environment turns off. */
export const checkLive = (
  store: StoreInspection,
  board: Board,
  forcedOff: ReadonlyArray<string> = [],
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.listKeys, (keys) => {
    const now = Date.now()
    const scopes = new Set(
      keys.filter((key) => key.mode === "live" && isActive(key, now)).flatMap(({ scopes: granted }) => granted),
    )
    if (scopes.size === 0) return skipped(name, "there is no live key")
    const kinds = builtInKinds().filter(({ keyScope }) => scopes.has(keyScope))
    const kindsOf = new Map<string, Array<string>>()
    for (const kind of kinds)
      for (const missing of missingPrerequisites(kind.gate, board, now)) {
        const which = missing.startsWith("provider:") ? "provider" : missing
        kindsOf.set(which, [...(kindsOf.get(which) ?? []), kind.name])
      }
    const findings = [...kindsOf].map(([missing, types]): GradedFinding & { readonly remedy: string } => ({
      isProblem: false,
      message: `live jobs of type ${types.join(", ")} are rejected: ${describe(missing)}`,
      remedy: remedyOf(missing, forcedOff),
      details: { missing },
    }))
    return graded(name, findings, {
      well: `live jobs of type ${kinds.map((kind) => kind.name).join(", ")} are accepted`,
      wrong: "there are live keys, but some live jobs are rejected",
    })
  })

const describe = (missing: string): string => {
  const [what = "", which = ""] = missing.split(":")
  switch (what) {
    case "price":
      return `the price ${which} is not active, or lacks a meter`
    case "switch":
      return `the switch ${which} is off`
    default:
      return "no running worker serves them"
  }
}
