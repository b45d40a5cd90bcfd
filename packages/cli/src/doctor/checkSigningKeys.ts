import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { SecretStore, type StoreInspection } from "@kiln/core/ports"
import { findKeyringConflicts, type HttpSettingInvalid, listSigningKeys } from "@kiln/http"
import type { Settings } from "../Settings.ts"
import { type Check, counted, ok, problem, skipped } from "./Check.ts"

const name = "signing-keys"

/** Secrets as the inspection reads them. The doctor writes nothing. */
const readOnly = ({ findSecret }: StoreInspection): SecretStore["Service"] => {
  const refuse = () => Effect.die(new Error("the doctor changes no secret"))
  return SecretStore.of({ find: findSecret, getOrCreate: refuse, replace: refuse, remove: refuse })
}

const unreadable = ({ problem: what, setting }: HttpSettingInvalid): Check =>
  problem(name, {
    summary: `a key that signs URLs cannot be used, so no API process starts: ${what}`,
    remedy:
      setting === "signingKeys"
        ? "restore the secret signing-keys from a backup, or set KILN_SIGNING_KEYS to new keys and run kiln signing-key drop with the name of each old one"
        : "correct KILN_SIGNING_KEYS",
  })

/** Checks the keys that a process with these settings would sign URLs with, and whether the one that started last has others. */
export const checkSigningKeys = (
  store: StoreInspection,
  { http: { signingKeys } }: Settings,
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const keys = yield* listSigningKeys(signingKeys)
    if (keys.length === 0) return skipped(name, "the first kiln serve generates a key")
    const conflicts = yield* findKeyringConflicts(signingKeys)
    return conflicts.length === 0
      ? ok(name, `${counted(keys.length, "key")}; ${keys.find(({ signs }) => signs)?.kid ?? ""} signs`)
      : problem(name, {
          summary: "this environment's keys differ from those of the process that started last",
          remedy: "give all processes the same KILN_SIGNING_KEYS, or unset it in all of them, and restart them",
          findings: conflicts.map((message) => ({ message })),
        })
  }).pipe(
    Effect.catchTag("HttpSettingInvalid", (error) => Effect.succeed(unreadable(error))),
    Effect.provideService(SecretStore, readOnly(store)),
  )
