import { sqliteStore } from "@kiln/adapter-sqlite"
import { expect, it } from "vitest"

/** As passed from JavaScript, or through a spread that the compiler does not check. */
const given = (value: unknown): never => value as never

it.each([
  [{ file: "kiln.db" }, 'unknown option "file" in sqliteStore(); known: path, busyTimeoutMs, retryForMs'],
  [{ path: "kiln.db", busyTimeout: 1 }, 'unknown option "busyTimeout" in sqliteStore(); did you mean "busyTimeoutMs"?'],
  [{ path: "" }, "sqliteStore() requires the option path, the database file"],
  [{}, "sqliteStore() requires the option path, the database file"],
  ["kiln.db", "sqliteStore() expects its options as an object"],
  [{ path: "kiln.db", retryForMs: Number.NaN }, "retryForMs must be a number between 0 and 2147483647, not NaN"],
  [{ path: "kiln.db", retryForMs: "5s" }, "retryForMs must be a number"],
  [{ path: "kiln.db", busyTimeoutMs: Number.POSITIVE_INFINITY }, "not Infinity"],
])("a store is not opened with %j", (options, message) => {
  expect(() => sqliteStore(given(options))).toThrow(message)
})
