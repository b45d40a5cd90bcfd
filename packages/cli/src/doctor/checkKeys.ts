import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { ApiKeyRecord, StoreInspection } from "@kiln/core/ports"
import { programCommand } from "../programCommand.ts"
import { keyCommand } from "../serve/firstKey.ts"
import { ageText, type Check, counted, graded, type GradedFinding, warning } from "./Check.ts"
import { isActive } from "./checkLive.ts"

const name = "keys"
const dayMs = 86_400_000
/** Time to hand out a successor. */
const expiringMs = 14 * dayMs
/** A key that was in use until shortly before it expired is probably missed. */
const missedMs = 7 * dayMs

const nameOf = ({ id, name: given }: ApiKeyRecord): string => (given === null ? id : `${id} (${given})`)

const judge = (key: ApiKeyRecord, now: number): ReadonlyArray<GradedFinding & { readonly remedy: string }> => {
  const { expiresAt, lastUsedAt, projectId, revokedAt } = key
  if (expiresAt === null || revokedAt !== null) return []
  const remedy = `kiln key create --project ${projectId} --mode ${key.mode} ${key.scopes.map((scope) => `--scope ${scope}`).join(" ")}, give the new key to its users, then kiln key revoke ${key.id}`
  const details = { key_id: key.id }
  if (expiresAt > now)
    return expiresAt - now > expiringMs
      ? []
      : [{ isProblem: false, message: `${nameOf(key)} expires in ${ageText(expiresAt - now)}`, remedy, details }]
  const wasInUse = lastUsedAt !== null && expiresAt - lastUsedAt < missedMs && now - expiresAt < missedMs
  return wasInUse
    ? [
        {
          isProblem: true,
          message: `${nameOf(key)} expired ${ageText(now - expiresAt)} ago and was in use: its callers get 401`,
          remedy,
          details,
        },
      ]
    : []
}

/** Checks that there are API keys, and that none that is in use ends unnoticed. */
export const checkKeys = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.listKeys, (keys) => {
    const now = Date.now()
    if (keys.length === 0)
      return warning(name, {
        summary: "there is no API key, so every request is rejected",
        remedy: `${programCommand()} project create default if there is no project yet, then ${keyCommand()}`,
      })
    const active = keys.filter((key) => isActive(key, now)).length
    return graded(
      name,
      keys.flatMap((key) => judge(key, now)),
      { well: `${counted(active, "active key")}, none expires soon`, wrong: "some keys expire soon, or have expired" },
    )
  })
