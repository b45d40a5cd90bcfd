import type { Board, PriceSnapshot } from "@kiln/core/domain"
import { type PriceVersion, Switchboard } from "@kiln/core/ports"
import { keep, type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `Switchboard`. */
export const makeMemorySwitchboard = (state: MemoryState): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: step((now) => readBoard(state, now)),
    setSwitch: (name, on) =>
      step(() => {
        state.switches[name] = on
      }),
    setPrice: (price) => step((now) => setPrice(state, price, now)),
    activatePrice: (name, active) => step(() => activatePrice(state, name, active)),
    listPrices: step(() => [...state.prices.keys()].sort().flatMap((name) => state.prices.get(name) ?? [])),
    publishWorker: ({ workerId, liveKinds, ttlMs }) =>
      step((now) => {
        state.workers.set(workerId, { liveKinds: keep(liveKinds), until: now + ttlMs })
      }),
  })

export const readBoard = (state: MemoryState, now: number): Board => ({
  switches: { ...state.switches },
  prices: Object.fromEntries(
    [...state.prices.values()]
      .flat()
      .flatMap(({ active, createdAt: _, ...price }) => (active ? [[price.name, price]] : [])),
  ),
  liveKinds: [
    ...new Set([...state.workers.values()].flatMap((worker) => (now < worker.until ? worker.liveKinds : []))),
  ].sort(),
})

const setPrice = (state: MemoryState, price: Omit<PriceSnapshot, "version">, now: number): PriceVersion => {
  const versions = state.prices.get(price.name) ?? []
  const active = versions.some((version) => version.active)
  const { name, currency, unitAmounts } = price
  const added = keep({ name, version: versions.length + 1, currency, unitAmounts, active, createdAt: now })
  state.prices.set(name, [...versions.map((version) => Object.freeze({ ...version, active: false })), added])
  return added
}

/** Activating means the latest version. */
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
