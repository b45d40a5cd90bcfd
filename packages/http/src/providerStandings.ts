import type { ProviderStanding, PublishedWorker } from "@kiln/core/ports"

/** How a provider stands in all workers together. */
export interface InstallationStanding {
  readonly provider: string
  /** `paused` when no worker can call it at this moment. */
  readonly status: "ready" | "paused"
  /** Workers that serve it, and those of them in which it is paused. */
  readonly workers: number
  readonly pausedWorkers: number
  /** Why it is paused, where it is; of several reasons one that is the operator's to mend. */
  readonly reason: ProviderStanding["reason"]
  /** Since when it is paused in the worker that paused it first, unix milliseconds; `null` where it is in none. */
  readonly pausedSince: number | null
}

/** What all workers publish, by provider. */
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
