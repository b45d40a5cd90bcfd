import { expect, it, vi } from "@effect/vitest"
import { Effect } from "effect"
import pg from "pg"
import { arrangeEveryState, callEveryVerb } from "@kiln/conformance"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"
import { hotVerbs } from "./support/hotVerbs.ts"

interface Node {
  readonly "Total Cost": number
  /** Whether it is of a kind that a setting turns off. Servers before Postgres 18 add ten billion to its cost instead. */
  readonly Disabled?: boolean
  readonly Plans?: ReadonlyArray<Node>
}

interface Explained {
  readonly "Query Text": string
  readonly Plan: Node
}

const nodesOf = (node: Node): ReadonlyArray<Node> => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** The cost above which a server compiles a statement by default, which takes longer than any of these runs. */
const compiledFrom = 100_000

const original = Reflect.get(pg.Client.prototype, "query") as (this: pg.Client, ...sent: []) => unknown

/** Makes the server send the plan of each statement, also of those within functions. */
const explaining: Readonly<Record<string, string>> = {
  session_preload_libraries: "'auto_explain'",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_format": "json",
  "auto_explain.log_level": "notice",
}

it.live("no statement of a verb, a function or a trigger is so dear that a server compiles it", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url })
    const name = new URL(url).pathname.slice(1)
    for (const [setting, value] of Object.entries(explaining))
      yield* runSql(url, `ALTER DATABASE ${name} SET ${setting} = ${value}`)

    const plans: Array<Explained> = []
    const listening = new WeakSet<pg.Client>()
    const query = vi.spyOn(pg.Client.prototype, "query").mockImplementation(function (this: pg.Client, ...sent: []) {
      if (!listening.has(this)) {
        listening.add(this)
        this.on("notice", ({ message = "" }) => {
          if (message.includes("plan:")) plans.push(JSON.parse(message.slice(message.indexOf("{"))) as Explained)
        })
      }
      return original.apply(this, sent)
    })
    const verbs = Effect.gen(function* () {
      yield* arrangeEveryState
      yield* callEveryVerb
      for (const round of [11, 12, 13, 14, 15, 16, 17]) yield* hotVerbs(round)
    })
    yield* Effect.provide(verbs, PostgresStores.layer({ url, poolSize: 2, notifications: false }), { local: true })
    query.mockRestore()

    expect(plans.length).toBeGreaterThan(1_000)
    const dear = plans
      .filter(({ Plan: plan }) => plan["Total Cost"] > compiledFrom || nodesOf(plan).some((node) => node.Disabled))
      .map(({ Plan: plan, "Query Text": text }) => `${plan["Total Cost"]}: ${text.slice(0, 200)}`)
    expect(dear).toEqual([])
  }),
)
