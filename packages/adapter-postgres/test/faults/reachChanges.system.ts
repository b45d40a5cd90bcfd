import { Effect } from "effect"
import { expect, it } from "vitest"
import { useCluster } from "./support/databases.ts"
import { openStores } from "./support/openStores.ts"
import { until } from "./support/until.ts"

const cluster = useCluster()

it("waiting workers wake when the listening connection is lost and when it is back, because notifications may have been missed", async () => {
  await using database = await cluster.database()
  await using stores = await openStores({ url: database.url, notifications: true })
  const { reach, wait } = stores.wakeUp
  const reaches = (wanted: string) => until(() => (Effect.runSync(reach) === wanted ? true : undefined))
  await reaches("installation")
  await Effect.runPromise(Effect.andThen(stores.wakeUp.notify, wait))
  const heardIn: Array<string> = []
  const waiter = Effect.forever(
    Effect.andThen(
      wait,
      Effect.map(reach, (now) => heardIn.push(now)),
    ),
  )
  const stop = new AbortController()
  const waiting = Effect.runPromiseExit(waiter, { signal: stop.signal })
  for (const { pid } of await cluster.backendsOf("kiln wake-up")) await cluster.server.terminate(pid)
  // The notification from above may still come back.
  const changes = () => heardIn.filter((now, n) => now !== (heardIn[n - 1] ?? "installation"))
  await until(() => (changes().length === 2 ? true : undefined))
  stop.abort()
  await waiting
  expect(changes()).toEqual(["process", "installation"])
})
