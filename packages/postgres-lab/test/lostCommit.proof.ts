import type pg from "pg"
import { describe, expect, it } from "vitest"
import { proxied } from "./support/proxied.ts"

type Proxied = Awaited<ReturnType<typeof proxied>>
type Way = readonly [name: string, config: pg.ClientConfig, commit: pg.QueryConfig, prepared: boolean]
const ways: ReadonlyArray<Way> = [
  ["a simple query", {}, { text: "COMMIT" }, false],
  ["a named statement prepared before", {}, { text: "commit", name: "end-it" }, true],
  ["a simple query in a pipeline", { pipeline: true }, { text: "COMMIT" }, false],
  ["a prepared statement in a pipeline", { pipeline: true }, { text: "commit", name: "end-it" }, true],
]

describe.each(ways)("a COMMIT as %s", (_, config, commit, prepared) => {
  const begin = async ({ connect }: Proxied) => {
    const client = await connect(config)
    if (prepared) {
      await client.query("BEGIN")
      await client.query(commit)
    }
    return client
  }
  /** Returns the outcome of each statement; a pipelining client sends all three before the first response. */
  const transaction = async (client: pg.Client): Promise<ReadonlyArray<string>> => {
    const running = ["BEGIN", "INSERT INTO jobs VALUES (1)", commit].map((query) => () => client.query(query))
    if (config.pipeline === true) {
      return (await Promise.allSettled(running.map((run) => run()))).map(({ status }) => status)
    }
    const outcomes: Array<string> = []
    for (const run of running) {
      const [outcome] = await Promise.allSettled([run()])
      outcomes.push(outcome.status)
    }
    return outcomes
  }

  it("runs, and its response is dropped", async () => {
    await using net = await proxied()
    const client = await begin(net)
    const dropped = net.proxy.dropAnswer()
    expect(await transaction(client)).toEqual(["fulfilled", "fulfilled", "rejected"])
    expect(await dropped).toBe(commit.text)
    expect(await net.jobs()).toBe(1)
    expect(net.proxy.connections()).toBe(0)
    // Only once.
    const next = await net.connect(config)
    await next.query("BEGIN")
    await next.query(commit)
  })

  it("never reaches the server", async () => {
    await using net = await proxied()
    const client = await begin(net)
    const cut = net.proxy.cutBefore()
    expect((await transaction(client)).at(-1)).toBe("rejected")
    expect(await cut).toBe(commit.text)
    expect(await net.jobs()).toBe(0)
    expect(net.proxy.connections()).toBe(0)
  })
})
