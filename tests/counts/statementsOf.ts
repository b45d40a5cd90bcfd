import type { TcpProxy } from "@kiln/postgres-lab"
import { setTimeout as sleep } from "node:timers/promises"
import { median } from "../../bench/measure.ts"

/** Resolves once the first sweep of the engine has ended, which on a busy machine adds a statement to most calls. */
export const untilQuiet = async (proxy: TcpProxy): Promise<void> => {
  do {
    proxy.resetCounts()
    await sleep(200)
  } while (proxy.statements().size > 0)
}

/**
 * Returns the statements that most of the calls run, each as often as they do. Work by the clock adds others to some of the calls: a transaction
 * of a sweep can accompany many of them, but with another statement each time.
 */
export const statementsOf = async (
  proxy: TcpProxy,
  calls: ReadonlyArray<() => Promise<unknown>>,
): Promise<ReadonlyArray<string>> => {
  const counts: Array<ReadonlyMap<string, number>> = []
  for (const call of calls) {
    proxy.resetCounts()
    await call()
    counts.push(proxy.statements())
  }
  const texts = new Set(counts.flatMap((each) => [...each.keys()]))
  return [...texts].flatMap((text) =>
    Array.from({ length: median(counts.map((each) => each.get(text) ?? 0)) }, () => text),
  )
}
