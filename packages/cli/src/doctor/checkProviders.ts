import * as Effect from "effect/Effect"
import type { StoreInspection } from "@kiln/core/ports"
import type { StoreUnavailable } from "@kiln/core/domain"
import { type InstallationStanding, providerStandings } from "@kiln/http"
import { type Check, counted, type Finding, ok, problem, skipped, warning } from "./Check.ts"

const name = "providers"

const why: Readonly<Record<NonNullable<InstallationStanding["reason"]>, string>> = {
  quota: "its quota is used up",
  configuration: "it rejects its configuration",
  failing: "it fails",
}

const remedies: typeof why = {
  quota: "raise the limit or pay the bill at the provider; workers notice by themselves",
  configuration:
    "correct KILN_OPENAI_API_KEY, KILN_OPENAI_BASE_URL or the model; the worker's log contains the response",
  failing: "wait, or see the provider's status page; workers try again by themselves",
}

const findingOf = ({ pausedSince, pausedWorkers, provider, reason, workers }: InstallationStanding): Finding => ({
  message: `${provider} is paused in ${pausedWorkers} of ${counted(workers, "worker")}${reason === null ? "" : `: ${why[reason]}`}`,
  remedy: remedies[reason ?? "failing"],
  details: {
    provider,
    ...(reason !== null && { reason }),
    ...(pausedSince !== null && { paused_since: new Date(pausedSince).toISOString() }),
  },
})

/** Checks the state of live providers as published by running workers. Only pauses that need an operator are problems. */
export const checkProviders = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.listWorkers, (published) => {
    const standings = providerStandings(published)
    if (standings.length === 0) return skipped(name, "no running worker serves live jobs")
    const paused = standings.filter(({ pausedWorkers }) => pausedWorkers > 0)
    const findings = paused.map(findingOf)
    if (paused.some(({ reason }) => reason !== "failing"))
      return problem(name, {
        summary: "some providers are paused until their quota or configuration is fixed",
        findings,
      })
    if (paused.length > 0) return warning(name, { summary: "some providers are paused temporarily", findings })
    return ok(name, `${standings.map(({ provider }) => provider).join(", ")}: none is paused`)
  })
