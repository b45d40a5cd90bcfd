import { postgresStore } from "@kiln/adapter-postgres"
import { expect, it } from "vitest"

/** As JavaScript gives it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

const url = "postgres://127.0.0.1/kiln"

it.each([
  [{ connectionString: url }, 'unknown option "connectionString" in postgresStore()'],
  [{ url, poolers: 1 }, 'unknown option "poolers" in postgresStore(); did you mean "pooler"?'],
  [{ pool: 1 }, "pool must be a Pool of the driver pg"],
  [{}, "postgresStore() requires the option url, a postgres:// URL"],
  [{ url, statementTimeoutMs: Number.NaN }, "statementTimeoutMs must be a number between 0 and 86400000, not NaN"],
  // The timer that cuts a silent connection would fire at once.
  [{ url, statementTimeoutMs: 2 ** 31 }, "not 2147483648"],
  [{ url, lockTimeoutMs: "3s" }, "lockTimeoutMs must be a number"],
  [{ url, reconnectForMs: Number.POSITIVE_INFINITY }, "not Infinity"],
  [{ url, poolSize: 2.5 }, "poolSize must be an integer"],
  [{ url, pooler: "pgbouncer" }, 'unknown pooler "pgbouncer"'],
  [{ url, pooler: "transactions" }, 'did you mean "transaction"?'],
  [{ url, notifications: "no" }, "notifications must be true or false"],
  [{ url, migrate: "false" }, "migrate must be true or false"],
])("a store is not opened with %j", (options, message) => {
  expect(() => postgresStore(given(options))).toThrow(message)
})
