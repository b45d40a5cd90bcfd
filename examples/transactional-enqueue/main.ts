// An order and its job in one transaction, with `pg`, `kysely` or `better-sqlite3`:
// `node --conditions=@kiln/source examples/transactional-enqueue/main.ts <one of them> <postgres:// URL or directory>`.
import { once } from "node:events"
import { setTimeout } from "node:timers/promises"
import { openWithBetterSqlite3 } from "./withBetterSqlite3.ts"
import { openWithKysely } from "./withKysely.ts"
import { openWithPg } from "./withPg.ts"

const shops = { pg: openWithPg, kysely: openWithKysely, "better-sqlite3": openWithBetterSqlite3 }
const [driver = "", place] = process.argv.slice(2)
if (!Object.hasOwn(shops, driver) || place === undefined)
  throw new Error(`pass one of ${Object.keys(shops).join(", ")}, and the location of the database`)

await using shop = await shops[driver as keyof typeof shops](place)
const startedAt = new Map<string, number>()
const started = new EventTarget()
shop.engine.on("active", ({ jobId }) => {
  startedAt.set(jobId, performance.now())
  started.dispatchEvent(new Event(jobId))
})

const report = async () => {
  const counts = await shop.engine.operator.count()
  const jobs = counts.reduce((sum, { count }) => sum + count, 0)
  console.log(`  ${await shop.countOrders()} orders, ${jobs} jobs`)
}

console.log("an order that is rolled back")
await shop.order("declined").catch((error: unknown) => console.log(`  ${String(error)}`))
await report()

const delays: Array<number> = []
/** Measures a 1 ms timer plus a query on this machine. */
const usual: Array<number> = []
for (let n = 1; n <= 9; n++) {
  const { committedAt, jobId } = await shop.order(`number ${n}`)
  if (!startedAt.has(jobId)) await once(started, jobId)
  delays.push((startedAt.get(jobId) ?? NaN) - committedAt)
  await shop.engine.wait(jobId)
  const askedAt = performance.now()
  await setTimeout(1)
  await shop.countOrders()
  usual.push(performance.now() - askedAt)
}
console.log("nine orders that are committed")
await report()
const middle = (times: ReadonlyArray<number>) => `${times.toSorted((a, b) => a - b)[4]?.toFixed(1)} ms`
console.log(
  `  in the middle, a worker began ${middle(delays)} after the commit; a timer and a query took ${middle(usual)}`,
)
