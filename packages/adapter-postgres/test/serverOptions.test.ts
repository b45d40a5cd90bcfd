import { mkdtempSync, rmSync } from "node:fs"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { afterEach, describe, vi } from "vitest"
import { postgresStore, PostgresStores } from "@kiln/adapter-postgres"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { emptyDatabase, runSql } from "./support/databases.ts"

const given = (value: unknown): never => value as never

afterEach(() => vi.unstubAllEnvs())

const messageOf = (options: unknown): string => {
  try {
    postgresStore(given(options))
  } catch (error) {
    return String(error)
  }
  return ""
}

describe("a url", () => {
  it.each([
    ["mysql://app:s3cret@db/app", "must begin with postgres://, postgresql:// or socket:"],
    ["app:s3cret@db/app", "must begin with postgres://"],
    ["postgres://app:s3#cret@db/app", 'percent-encode "@"'],
    ["postgres://app:s3/cret@db/app", 'percent-encode "@"'],
    ["postgres://app:12/s3cret@db/app", "the name of the database contains @ or /"],
    ["postgres://app:s3cret@db:port/app", "cannot be parsed"],
    ["postgres://app:s3cret@db/app\n", "contains a # or a space"],
    ["postgres://app:s3cret@db/%E0%A4%A", "cannot be parsed"],
    ["postgres://app:s3cret@one:5432,two:5432/app", "several hosts"],
    ["postgres://app:s3cret@db/app?service=main", "service=main names a section of a service file"],
    ["postgres://app:s3cret@db/app?sslrootcert=/nowhere/ca.pem", "cannot read the file /nowhere/ca.pem"],
  ])("%s is refused in words that do not repeat the password", (url, words) => {
    const message = messageOf({ url })
    expect(message).toContain(words)
    expect(message).not.toMatch(/s3|cret/)
  })

  it.each([
    "postgres://app:s3cret@db.internal:5432/app",
    "postgresql://db/app?sslmode=verify-full",
    "postgres://app:p%23@[::1]:5432/app",
    "postgres:///app?host=/var/run/postgresql",
    "postgres://app:s3cret@/app?host=/var/run/postgresql",
    "postgres://%2Fvar%2Frun%2Fpostgresql/app",
    "socket:/var/run/postgresql?db=app",
    "/var/run/postgresql app",
  ])("%s is accepted", (url) => {
    expect(messageOf({ url })).toBe("")
  })

  it("without a host is refused where only a service file would name one", () => {
    vi.stubEnv("PGSERVICE", "main")
    expect(messageOf({ url: "postgres:///app" })).toContain("PGSERVICE names a section of a service file")
    expect(messageOf({ url: "postgres://db/app" })).toBe("")
    vi.stubEnv("PGHOST", "db")
    expect(messageOf({ url: "postgres:///app" })).toBe("")
  })
})

describe("password and ssl", () => {
  const url = "postgres://app@db/app"
  it.each([
    [{ url, password: 1 }, "password must be a string or a function"],
    [{ url: "postgres://app:x@db/app", password: "y" }, "pass one of them"],
    [{ url: `${url}?password=x`, password: "y" }, "pass one of them"],
    [{ url, ssl: "require" }, "ssl must be true, false or an object"],
    [{ url: `${url}?sslmode=verify-full`, ssl: { ca: "" } }, "pass one of them"],
  ])("%j is refused", (options, words) => {
    expect(messageOf(options)).toContain(words)
  })
})

/** The test server accepts only passwords, so a connection that works has sent the right one. */
const withoutPassword = (full: string) => {
  const url = new URL(full)
  const { password } = url
  url.password = ""
  return { url: url.href, password: decodeURIComponent(password) }
}

const addOne = Effect.flatMap(JobStore, ({ createJobs }) => createJobs([fixtures.newJob(1)]))

it.live("a password function is called for each new connection, and its failures are retried", () =>
  Effect.gen(function* () {
    const { password, url } = withoutPassword(yield* emptyDatabase)
    expect(password).not.toBe("")
    let calls = 0
    const layer = PostgresStores.layer({
      url,
      poolSize: 2,
      password: async () => {
        calls += 1
        if (calls === 1) throw new Error("the token service is down")
        return password
      },
    })
    yield* Effect.gen(function* () {
      const before = calls
      expect((yield* addOne).map(({ _tag }) => _tag)).toEqual(["Created"])
      yield* runSql(
        url.replace("@", `:${encodeURIComponent(password)}@`),
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kiln' AND datname = current_database()",
      )
      yield* addOne
      expect(calls).toBeGreaterThan(before)
    }).pipe(Effect.provide(layer))
  }),
)

it.live("a password function that keeps failing is named by the error", () =>
  Effect.gen(function* () {
    const { url } = withoutPassword(yield* emptyDatabase)
    for (const [password, words] of [
      [() => Promise.reject(new Error("down")), "the option password, a function, failed"],
      [given(() => 12), "must return a string, not number"],
    ] as const) {
      const layer = PostgresStores.layer({ url, poolSize: 2, reconnectForMs: 50, password })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(layer)))
      expect(String(error.cause)).toContain(words)
    }
  }),
)

it.live("ssl reaches the driver: a server without TLS is refused", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const layer = PostgresStores.layer({ url, poolSize: 2, reconnectForMs: 0, ssl: { rejectUnauthorized: true } })
    const error = yield* Effect.flip(Effect.scoped(Layer.build(layer)))
    expect(String(error.cause)).toContain("does not support SSL")
  }),
)

/** A server on a Unix socket in a directory of its own, in front of another. */
const onSocket = (full: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { hostname, port } = new URL(full)
      const directory = mkdtempSync(join(tmpdir(), "kiln-socket-"))
      const server = createServer((socket) => {
        const target = connect(Number(port), hostname)
        for (const each of [socket, target]) each.on("error", () => undefined)
        socket.pipe(target).pipe(socket)
      })
      await new Promise<void>((resolve) => server.listen(join(directory, ".s.PGSQL.5432"), resolve))
      return { directory, server }
    }),
    ({ directory, server }) =>
      Effect.sync(() => {
        server.close()
        rmSync(directory, { recursive: true, force: true })
      }),
  )

it.live("a Unix socket works, with its directory as a parameter", () =>
  Effect.gen(function* () {
    const full = yield* emptyDatabase
    const { directory } = yield* onSocket(full)
    const { password, pathname, username } = new URL(full)
    const url = `postgres://${username}:${password}@${pathname}?host=${directory}`
    yield* Effect.provide(addOne, PostgresStores.layer({ url, poolSize: 2 }))
    expect(yield* runSql(full, `SELECT count(*)::int AS jobs FROM "kiln".jobs`)).toEqual([{ jobs: 1 }])
  }),
)
