import type { Board, PriceSnapshot } from "@kiln/core/domain"
import { lastServedStepMs, switchesWith } from "@kiln/core/rules"
import { type PriceVersion, type PublishedWorker, Switchboard } from "@kiln/core/ports"
import { keep, type MemoryState, step } from "./MemoryState.ts"
import { readSpending } from "./spending.ts"

/** The reference model of `Switchboard`. */
export const makeMemorySwitchboard = (state: MemoryState): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: step((now) => readBoard(state, now)),
    pauseKind: (kind, paused) =>
      step(() => {
        if (paused) state.pausedKinds.add(kind)
        else state.pausedKinds.delete(kind)
      }),
    limitProject: (projectId, concurrency) =>
      step(() => {
        if (concurrency === null) state.projectConcurrency.delete(projectId)
        else state.projectConcurrency.set(projectId, concurrency)
      }),
    setSwitch: (name, on) =>
      step(() => {
        state.switches.set(name, on)
      }),
    setPrice: (price) => step((now) => setPrice(state, price, now)),
    activatePrice: (name, active) => step(() => activatePrice(state, name, active)),
    listPrices: step(() => [...state.prices.keys()].sort().flatMap((name) => state.prices.get(name) ?? [])),
    setSpendCap: (owner, cap) =>
      step(() => {
        if (cap === null) state.spendCaps.delete(owner)
        else state.spendCaps.set(owner, keep({ currency: cap.currency, day: cap.day, month: cap.month }))
      }),
    listSpending: step((now) =>
      [...state.spendCaps.keys()].sort().flatMap((owner) => readSpending(state, owner, now) ?? []),
    ),
    publishWorker: ({ liveKinds, providers, scope, ttlMs, workerId }) =>
      step((now) => {
        const published = keep({ workerId, liveKinds, providers, ...(scope && { scope }) })
        state.workers.set(workerId, { published, until: now + ttlMs })
        // A worker that stops publishes the exact time.
        const before = ttlMs > 0 ? now - lastServedStepMs : now
        for (const kind of liveKinds)
          if ((state.servedKinds.get(kind) ?? -Infinity) < before) state.servedKinds.set(kind, now)
      }),
    listWorkers: step((now) => publishedWorkers(state, now)),
  })

export const readBoard = (state: MemoryState, now: number): Board => ({
  switches: switchesWith(state.switches),
  prices: Object.fromEntries(
    [...state.prices.values()]
      .flat()
      .flatMap(({ active, createdAt: _, ...price }) => (active ? [[price.name, price]] : [])),
  ),
  liveKinds: [...new Set(publishedWorkers(state, now).flatMap((worker) => worker.liveKinds))].sort(),
  lastServedAt: Object.fromEntries(state.servedKinds),
  pausedKinds: [...state.pausedKinds].sort(),
  projectConcurrency: Object.fromEntries(state.projectConcurrency),
})

/** Returns the published workers that have not expired; the end is exclusive. */
const publishedWorkers = (state: MemoryState, now: number): ReadonlyArray<PublishedWorker> =>
  [...state.workers.keys()].sort().flatMap((workerId) => {
    const worker = state.workers.get(workerId)
    return worker !== undefined && now < worker.until ? [worker.published] : []
  })

const setPrice = (state: MemoryState, price: Omit<PriceSnapshot, "version">, now: number): PriceVersion => {
  const versions = state.prices.get(price.name) ?? []
  const active = versions.some((version) => version.active)
  const { name, currency, unitAmounts } = price
  const added = keep({ name, version: versions.length + 1, currency, unitAmounts, active, createdAt: now })
  state.prices.set(name, [...versions.map((version) => Object.freeze({ ...version, active: false })), added])
  return added
}

/** Activates or deactivates the latest version. */
const activatePrice = (state: MemoryState, name: string, active: boolean): boolean => {
  const versions = state.prices.get(name)
  if (versions === undefined) return false
  const latest = versions.length
  state.prices.set(
    name,
    versions.map((version) => Object.freeze({ ...version, active: active && version.version === latest })),
  )
  return true
}
