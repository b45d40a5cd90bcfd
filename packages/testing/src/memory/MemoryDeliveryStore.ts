import { DeliveryStore, type Settlement } from "@kiln/core/ports"
import type { PendingDelivery } from "@kiln/core/domain"
import { deliveryLeaseMs } from "@kiln/core/rules"
import { type MemoryState, step } from "./MemoryState.ts"

/** The reference model of `DeliveryStore`. */
export const makeMemoryDeliveryStore = (state: MemoryState): DeliveryStore["Service"] =>
  DeliveryStore.of({
    claimDeliveries: ({ kinds, leaseDurationMs, limit }) =>
      step((now) => {
        const due = [...state.deliveries.values()].filter(({ dueAt, kind }) => dueAt <= now && kinds.includes(kind))
        return due
          .sort(byTime)
          .slice(0, limit)
          .map(({ attempts, jobId, kind, token }) => {
            const claimed = { attempts: attempts + 1, token: token + 1 }
            put(state, { jobId, kind, dueAt: now + leaseDurationMs, ...claimed })
            return { jobId, kind, token: claimed.token, attempt: claimed.attempts }
          })
      }),
    settleDeliveries: (items) => step((now) => items.map((item) => settle(state, item, now))),
    redeliver: (items) =>
      step((now) =>
        items.map(({ jobId, kind }) => {
          const present = state.deliveries.get(jobId)
          if (present !== undefined && present.dueAt <= now + deliveryLeaseMs) return "Pending"
          put(state, { jobId, kind, dueAt: now, attempts: 0, token: present === undefined ? now : present.token + 1 })
          return "Redelivered"
        }),
      ),
    listDeliveries: (limit) => step(() => [...state.deliveries.values()].sort(byJob).slice(0, limit)),
    countDeliveries: step((now) =>
      [...Map.groupBy(state.deliveries.values(), ({ kind }) => kind)]
        .map(([kind, deliveries]) => ({
          kind,
          count: deliveries.length,
          repeated: deliveries.filter(({ attempts }) => attempts > 1).length,
          oldestDueMs: Math.max(0, ...deliveries.map(({ dueAt }) => now - dueAt)),
        }))
        .sort((a, b) => (a.kind < b.kind ? -1 : 1)),
    ),
  })

const settle = (state: MemoryState, { counts, jobId, retryInMs, token }: Settlement, now: number) => {
  const held = state.deliveries.get(jobId)
  if (held === undefined || held.token !== token) return "LeaseLost"
  if (retryInMs === null) state.deliveries.delete(jobId)
  else
    put(state, {
      ...held,
      dueAt: now + retryInMs,
      attempts: held.attempts - (counts ? 0 : 1),
      token: token + 1,
    })
  return "Written"
}

const put = (state: MemoryState, delivery: PendingDelivery): void =>
  void state.deliveries.set(delivery.jobId, Object.freeze(delivery))

const byJob = (a: PendingDelivery, b: PendingDelivery): number => (a.jobId < b.jobId ? -1 : 1)

const byTime = (a: PendingDelivery, b: PendingDelivery): number => a.dueAt - b.dueAt || byJob(a, b)
