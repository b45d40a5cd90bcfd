import type { ProviderStanding, PublishedWorker } from "@kiln/core/ports"

/** State of a provider across all workers. */
export interface InstallationStanding {
  readonly provider: string
  /** `paused` if no worker can call it right now. */
  readonly status: "ready" | "paused"
  /** Number of workers that serve it, and number of those in which it is paused. */
  readonly workers: number
  readonly pausedWorkers: number
  /** Why it is paused, if it is; of several reasons, one that the operator can fix. */
  readonly reason: ProviderStanding["reason"]
  /** Time at which the first worker paused it, in Unix milliseconds; `null` if no worker has. */
  readonly pausedSince: number | null
}

/** Combines the published state of all workers, by provider. */
export const providerStandings = (workers: ReadonlyArray<PublishedWorker>): ReadonlyArray<InstallationStanding> => {
  const byProvider = Map.groupBy(
    workers.flatMap(({ providers }) => providers),
    ({ provider }) => provider,
  )
  return [...byProvider].map(([provider, standings]) => {
    const paused = standings.filter(({ status }) => status === "paused")
    const [worst] = paused.toSorted((a, b) => Number(a.reason === "failing") - Number(b.reason === "failing"))
    return {
      provider,
      status: paused.length === standings.length ? "paused" : "ready",
      workers: standings.length,
      pausedWorkers: paused.length,
      reason: worst?.reason ?? null,
      pausedSince: paused.length === 0 ? null : Math.min(...paused.map(({ since }) => since)),
    }
  })
}
