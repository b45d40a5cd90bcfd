import { join } from "node:path"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { IdGenerator } from "@kiln/core/ports"
import { Effect, Layer } from "effect"
import { expect, it } from "vitest"
import { createKey, serve, temporaryDirectory, until } from "@kiln/service-lab"
import { seedStores } from "./crash/support/seed.ts"
import { Api } from "./support/Api.ts"

/** A key that costs nothing must not keep those waiting that pay. */

it(
  "eight delayed jobs of one test key hold no slot: a live job and a sandbox job of another project are done meanwhile",
  {
    timeout: 120_000,
  },
  async () => {
    using data = temporaryDirectory()
    const stores = Layer.merge(SqliteStores.layer({ path: join(data.path, "kiln.db") }), IdGenerator.layer)
    const keys = await Effect.runPromise(
      Effect.provide(
        Effect.all({ seeded: seedStores, free: createKey({}), other: createKey({}) }, { concurrency: 1 }),
        stores,
      ),
    )
    await using kiln = await serve({ KILN_DATA_DIR: data.path, KILN_PROVIDER: "sandbox" })
    const api = (key: string) => new Api(kiln.listening.url, key)
    const free = api(keys.free.secret)
    const delayed = await Promise.all(Array.from({ length: 8 }, () => free.createSpeech("sandbox:delay:60")))
    await until(async () => {
      const jobs = await free.jobs(delayed)
      return jobs.every(({ status }) => status === "processing") ? true : undefined
    })
    const live = api(keys.seeded.live.key)
    const others = [live, api(keys.other.secret), free]
    const done = await Promise.all(others.map(async (one) => one.finished(await one.createSpeech("Good morning."))))
    expect(done.map(({ status }) => status)).toEqual(["done", "done", "done"])
    // Nothing but their delay was waited for.
    expect(new Set((await free.jobs(delayed)).map(({ status }) => status))).toEqual(new Set(["processing"]))
  },
)
