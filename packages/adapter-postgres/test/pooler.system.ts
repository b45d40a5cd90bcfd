import { describe, expect, it, vi } from "@effect/vitest"
import { Context, Effect, Layer, Option } from "effect"
import pg from "pg"
import { inject } from "vitest"
import { WakeUp } from "@kiln/core/ports"
import { type TcpProxy, tcpProxy, transactionPooler } from "@kiln/postgres-lab"
import { arrangeEveryState, callEveryVerb, compareWithMemory } from "@kiln/conformance"
import { type PostgresOptions, PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase, runSql } from "./support/databases.ts"
import { ownPlace } from "./support/ownPlace.ts"

const proxyTo = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(() => tcpProxy(url)),
    (proxy) => Effect.promise(() => proxy.close()),
  )

const poolerTo = (url: string, refused?: string | null) =>
  Effect.acquireRelease(
    Effect.promise(() => transactionPooler(url, 3, refused)),
    (pooler) => Effect.promise(() => pooler.close()),
  )

/** Every verb, and a notification that is on its way by the end. */
const everything = Effect.gen(function* () {
  yield* arrangeEveryState
  yield* callEveryVerb
  const wakeUp = yield* WakeUp
  yield* wakeUp.notify
})

/** What the stores send, and what of it belongs to the notifications. */
const hints = (proxy: TcpProxy): ReadonlyArray<string> =>
  // Functions of the schema only mention them.
  [...proxy.statements().keys()].filter(
    (text) => /listen|notify/i.test(text) && !/CREATE (OR REPLACE )?FUNCTION/.test(text),
  )

describe("notifications: false", () => {
  it.live("nothing is said of them, for servers that do not know them", () =>
    Effect.gen(function* () {
      const proxy = yield* proxyTo(yield* emptyDatabase)
      const layer = (options: Partial<PostgresOptions>) =>
        PostgresStores.layer({ url: proxy.url, poolSize: 2, ...options })
      yield* Effect.provide(everything, layer({ notifications: false }))
      expect(proxy.statements().size).toBeGreaterThan(60)
      expect(hints(proxy)).toEqual([])
      // Told apart from a count that never finds any.
      yield* Effect.flatMap(WakeUp, ({ notify }) => notify).pipe(Effect.provide(layer({ notifications: true })))
      expect(hints(proxy)).not.toEqual([])
    }),
  )
})

describe('pooler: "transaction"', () => {
  it.live("no prepared statement has a name, no session has settings, and nobody listens, but others are told", () =>
    Effect.gen(function* () {
      const proxy = yield* proxyTo(yield* emptyDatabase)
      const query = vi.spyOn(pg.Client.prototype, "query")
      const layer = PostgresStores.layer({ url: proxy.url, poolSize: 2, pooler: "transaction" })
      yield* Effect.gen(function* () {
        yield* everything
        const clients = new Set(query.mock.contexts.filter((context) => context instanceof pg.Client))
        query.mockRestore()
        expect(clients.size).toBe(2)
        for (const client of clients) {
          const { rows } = yield* Effect.promise(() =>
            client.query(
              `SELECT (SELECT count(*)::int FROM pg_prepared_statements WHERE name <> '') AS prepared,
                 (SELECT count(*)::int FROM pg_settings WHERE source = 'session' AND name <> 'application_name') AS set,
                 (SELECT count(*)::int FROM pg_listening_channels()) AS listening`,
            ),
          )
          expect(rows).toEqual([{ prepared: 0, set: 0, listening: 0 }])
        }
        expect(yield* (yield* WakeUp).reach).toBe("process")
      }).pipe(Effect.provide(layer))
      expect(hints(proxy).filter((text) => /pg_notify/.test(text))).not.toEqual([])
      expect(hints(proxy).filter((text) => /^listen/i.test(text))).toEqual([])
      expect(proxy.statements().size).toBeGreaterThan(60)
      const texts = [...proxy.statements().keys()]
      expect(
        texts.filter((text) => /^\s*(set|prepare|discard|declare)\b/i.test(text) && !/^set local/i.test(text)),
      ).toEqual([])
    }),
  )

  it.live("a transaction is durable and lets go of its locks, whatever the server's own settings are", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const database = new URL(url).pathname.slice(1)
      yield* runSql(url, `ALTER DATABASE ${database} SET synchronous_commit = off`)
      const query = vi.spyOn(pg.Client.prototype, "query")
      yield* Effect.scoped(
        Layer.build(PostgresStores.layer({ url, poolSize: 2, pooler: "transaction", lockTimeoutMs: 1_234 })),
      )
      const begin = query.mock.calls
        .map(([text]: ReadonlyArray<unknown>) => String(text))
        .find((text) => text.startsWith("BEGIN"))
      query.mockRestore()
      const client = yield* connected(url)
      const shown = "SELECT current_setting('synchronous_commit') AS commit, current_setting('lock_timeout') AS lock"
      const ask = (sql: string) =>
        Effect.map(
          Effect.promise(() => client.query(sql)),
          ({ rows }) => rows as unknown,
        )
      yield* ask(String(begin))
      expect(yield* ask(shown)).toEqual([{ commit: "on", lock: "1234ms" }])
      yield* ask("COMMIT")
      expect(yield* ask(shown)).toEqual([{ commit: "off", lock: "0" }])
    }),
  )

  it.live("what is added through it is heard by who listens beside it, unless notifications are turned off", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const pooler = yield* poolerTo(url)
      const open = (options: PostgresOptions) =>
        Effect.map(Layer.build(PostgresStores.layer({ poolSize: 2, ...options })), (context) =>
          Context.get(context, WakeUp),
        )
      const listening = yield* open({ url })
      const through = yield* open({ url: pooler.url, pooler: "transaction" })
      const silent = yield* open({ url: pooler.url, pooler: "transaction", notifications: false })
      yield* Effect.repeat(listening.reach, { until: (reach) => reach === "installation" })
      // Consumes the notifications of the connection, and of the start of listening, which the first wait asks for.
      yield* Effect.timeoutOption(listening.wait, 200)
      yield* Effect.timeoutOption(listening.wait, 200)
      yield* silent.notify
      expect(Option.isNone(yield* Effect.timeoutOption(listening.wait, 200))).toBe(true)
      yield* through.notify
      expect(Option.isSome(yield* Effect.timeoutOption(listening.wait, 5_000))).toBe(true)
    }),
  )

  it.live.each([
    ["refuses settings of sessions", undefined],
    [
      "refuses them as the proxy of RDS does",
      "Feature not supported: RDS Proxy currently doesn't support command-line options.",
    ],
    ["ignores them", null],
  ] as const)("the other mode behind a pooler that %s fails with the option's name", ([, refused]) =>
    Effect.gen(function* () {
      const pooler = yield* poolerTo(yield* emptyDatabase, refused)
      const error = yield* Effect.flip(
        Effect.scoped(Layer.build(PostgresStores.layer({ url: pooler.url, poolSize: 2 }))),
      )
      expect(String(error.cause)).toMatch(/set pooler: "transaction"/)
    }),
  )

  it.live("every verb works while the sessions change below it", () =>
    Effect.gen(function* () {
      const pooler = yield* poolerTo(yield* emptyDatabase)
      yield* Effect.provide(everything, PostgresStores.layer({ url: pooler.url, poolSize: 5, pooler: "transaction" }))
      expect(pooler.changes()).toBeGreaterThan(50)
    }),
  )
})

compareWithMemory({
  name: "Postgres, behind a pooler that changes sessions,",
  place: Effect.gen(function* () {
    const url = yield* emptyDatabase
    const pooler = yield* poolerTo(url)
    return yield* ownPlace({ url, stores: { url: pooler.url, pooler: "transaction" } })
  }),
  capabilities: { durable: true, multiProcess: true },
  // The proof tier has the time for more.
  runs: inject("tier") === "proof" ? 20 : 2,
})
