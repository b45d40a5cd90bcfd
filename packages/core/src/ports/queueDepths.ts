import type { JobMode } from "../domain/Access.ts"
import type { QueueDepth } from "./JobListing.ts"

interface Group {
  readonly kind: string
  readonly mode: JobMode
}

/** The number of a `QueueDepth` that counts an unfinished job. */
export type DepthState = "ready" | "delayed" | "retrying" | "running"

/** Builds the answer of `JobDirectory.measureQueue` from the jobs counted by state, and the age of the oldest ready job. */
export const queueDepths = (
  counts: ReadonlyArray<Group & { readonly state: DepthState; readonly count: number }>,
  oldest: ReadonlyArray<Group & { readonly readyMs: number }>,
): ReadonlyArray<QueueDepth> => {
  const depths = new Map<string, QueueDepth>()
  const change = ({ kind, mode }: Group, changes: Partial<QueueDepth>): void => {
    const name = `${kind} ${mode}`
    const before = depths.get(name) ?? { kind, mode, ready: 0, delayed: 0, retrying: 0, running: 0, oldestReadyMs: 0 }
    depths.set(name, { ...before, ...changes })
  }
  for (const { count, state, ...group } of counts) change(group, { [state]: count })
  for (const { readyMs, ...group } of oldest) change(group, { oldestReadyMs: readyMs })
  return [...depths.keys()].sort().flatMap((name) => depths.get(name) ?? [])
}
