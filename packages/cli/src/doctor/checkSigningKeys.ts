import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { SecretStore, type StoreInspection } from "@kiln/core/ports"
import { findKeyringConflicts, type HttpSettingInvalid, listSigningKeys, signProbe } from "@kiln/http"
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

/** Requests to the public address; a proxy spreads them over the processes. */
const probes = 4
const patienceMs = 3_000

/** The number of processes at the public address that reject this environment's keys. Those that cannot be reached do not count. */
const rejections = async (url: string): Promise<number> => {
  let rejected = 0
  for (let n = 0; n < probes; n++) {
    const answer = fetch(url, { headers: { connection: "close" }, signal: AbortSignal.timeout(patienceMs) })
    const status = await answer.then(
      (response) => response.status,
      () => undefined,
    )
    if (status === undefined) return rejected
    if (status === 403) rejected++
  }
  return rejected
}

const foreignAnswers = Effect.fnUntraced(function* ({ http: { publicUrl, signingKeys }, role }: Settings) {
  if (publicUrl === undefined || role === "worker") return 0
  const url = yield* signProbe(signingKeys, publicUrl)
  return url === undefined ? 0 : yield* Effect.promise(() => rejections(url))
})

/** Checks the keys that a process with these settings would sign URLs with, and whether the one that started last has others. */
export const checkSigningKeys = (store: StoreInspection, settings: Settings): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const { publicUrl, signingKeys } = settings.http
    const keys = yield* listSigningKeys(signingKeys)
    if (keys.length === 0) return skipped(name, "the first kiln serve generates a key")
    const conflicts = yield* findKeyringConflicts(signingKeys)
    if (conflicts.length > 0)
      return problem(name, {
        summary: "this environment's keys differ from those of the process that started last",
        remedy: "give all processes the same KILN_SIGNING_KEYS, or unset it in all of them, and restart them",
        findings: conflicts.map((message) => ({ message })),
      })
    const foreign = yield* foreignAnswers(settings)
    return foreign === 0
      ? ok(name, `${counted(keys.length, "key")}; ${keys.find(({ signs }) => signs)?.kid ?? ""} signs`)
      : problem(name, {
          summary: `${foreign} of ${probes} requests to ${publicUrl ?? ""} were answered by a process that rejects this installation's URLs`,
          remedy:
            "see whether the proxy forwards to another installation, and whether all processes have the same DATABASE_URL, KILN_DATA_DIR and KILN_SIGNING_KEYS",
        })
  }).pipe(
    Effect.catchTag("HttpSettingInvalid", (error) => Effect.succeed(unreadable(error))),
    Effect.provideService(SecretStore, readOnly(store)),
  )
