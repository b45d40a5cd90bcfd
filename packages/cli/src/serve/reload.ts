import * as Effect from "effect/Effect"
import type { HttpService } from "@kiln/http"
import { readGivenSettings } from "../readEnvironment.ts"
import type { ReadSettings, SettingName } from "../Settings.ts"
import { listenProblem } from "../startProblems.ts"

/** The settings of the HTTP service that a running process can change. All others need a restart. */
const reloadable: ReadonlySet<string> = new Set<SettingName>([
  "PUBLIC_URL",
  "KILN_SIGNING_KEYS",
  "KILN_TRUSTED_PROXIES",
  "KILN_RATE_LIMITS",
  "KILN_PAGES",
  "KILN_PLAYGROUND",
  "KILN_FILES",
])

type Given = Extract<ReadSettings, { readonly ok: true }>["given"]

/** Returns the names of the settings whose texts differ. */
const changedNames = (before: Given, now: Given): ReadonlyArray<string> => {
  const texts = (given: Given) => new Map(Object.entries(given).map(([name, { text }]) => [name, text]))
  const [old, recent] = [texts(before), texts(now)]
  return [...new Set([...old.keys(), ...recent.keys()])].filter((name) => old.get(name) !== recent.get(name))
}

/**
 * Returns an effect that reads the settings again and applies those that a running service can change. The environment of a
 * process does not change, so new values come from files (`*_FILE`, systemd credentials). Signing keys in the store are read
 * again as well. Invalid settings change nothing. Problems are logged.
 *
 * @param started the settings with which this process started
 * @param http the service of this process; `undefined` for a process that only runs jobs
 */
export const makeReload = (started: Given, http: HttpService["Service"] | undefined): Effect.Effect<void> => {
  let applied = started
  return Effect.gen(function* () {
    const read = yield* readGivenSettings
    const later = changedNames(started, read.given).filter((name) => http === undefined || !reloadable.has(name))
    if (later.length > 0) yield* Effect.logWarning(`SIGHUP: restart kiln to apply changes of ${later.join(", ")}`)
    if (http === undefined) return yield* Effect.logInfo("SIGHUP: a worker has no settings to reload")
    yield* Effect.mapError(http.reload(read.settings.http), listenProblem)
    const now = changedNames(applied, read.given).filter((name) => reloadable.has(name))
    applied = read.given
    yield* Effect.logInfo(
      now.length === 0 ? "SIGHUP: reloaded; no setting has changed" : `SIGHUP: reloaded ${now.join(", ")}`,
    )
  }).pipe(
    Effect.catch((error) => Effect.logError(`SIGHUP: nothing reloaded: ${error.message}`)),
    Effect.catchCause((cause) => Effect.logError("SIGHUP: nothing reloaded", cause)),
  )
}
