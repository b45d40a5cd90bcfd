import type { Browser } from "playwright-core"
import { openPage } from "./chromium.ts"

/** Fresh loads, of which the medians are taken. */
const loads = 5
const settleMs = 1_000

interface Figures {
  /** Milliseconds until the first content is painted. */
  readonly firstPaintMs: number
  /** The parts of long tasks beyond 50 ms, in milliseconds. */
  readonly blockingMs: number
}

const median = (values: ReadonlyArray<number>): number => values.toSorted((one, other) => one - other)[loads >> 1] ?? 0

/** Measures the loads of a page with an empty cache. `isShown` is a selector of its content. */
export const measurePaint = async (
  browser: Browser,
  base: string,
  url: string,
  isShown: string,
  options: Parameters<typeof openPage>[2] = {},
): Promise<Figures> => {
  const measured: Array<Figures> = []
  for (let load = 0; load < loads; load += 1) {
    const { close, page } = await openPage(browser, base, options)
    await page.addInitScript(() => {
      Object.assign(globalThis, { blockingMs: 0 })
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries())
          Object.assign(globalThis, { blockingMs: Reflect.get(globalThis, "blockingMs") + duration - 50 })
      }).observe({ type: "longtask", buffered: true })
    })
    await page.goto(url)
    await page.locator(isShown).first().waitFor()
    await page.waitForTimeout(settleMs)
    measured.push(
      await page.evaluate(() => ({
        firstPaintMs: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN,
        blockingMs: Reflect.get(globalThis, "blockingMs") as number,
      })),
    )
    await close()
  }
  return {
    firstPaintMs: Math.round(median(measured.map(({ firstPaintMs }) => firstPaintMs))),
    blockingMs: Math.round(median(measured.map(({ blockingMs }) => blockingMs))),
  }
}
