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

/** Returns the median number of statements of the calls. Work by the clock adds to some of them. */
export const statementsOf = async (proxy: TcpProxy, calls: ReadonlyArray<() => Promise<unknown>>): Promise<number> => {
  const counts: Array<number> = []
  for (const call of calls) {
    proxy.resetCounts()
    await call()
    counts.push([...proxy.statements().values()].reduce((sum, each) => sum + each, 0))
  }
  return median(counts)
}
