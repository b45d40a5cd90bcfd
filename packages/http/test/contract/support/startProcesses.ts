import { FileBlobStore } from "@kiln/adapter-blobs"
import { PostgresStores } from "@kiln/adapter-postgres"
import { IdGenerator } from "@kiln/core/ports"
import type { RateLimits } from "@kiln/http/mount"
import { type Effect, Layer, ManagedRuntime } from "effect"
import { expect } from "vitest"
import { createKey, serve, serviceConfig } from "@kiln/service-lab"
import { blobDirectory, type Place } from "./Place.ts"
import type { Backstage, Service, ServiceSettings } from "./Service.ts"
import { engineSettings, httpSettings } from "./settings.ts"

/** How long the service waits for requests in flight when it stops. */
const graceMs = 20_000

const rateLimits = (limits: RateLimits): string =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(limits).map(([name, { burst, perMinute }]) => [name, { burst, per_minute: perMinute }]),
    ),
  )

/** The same settings as an operator writes them down. */
const environment = (settings: ServiceSettings, place: Place): Readonly<Record<string, string>> => {
  const http = httpSettings(settings)
  return {
    DATABASE_URL: place.databaseUrl,
    KILN_DATA_DIR: place.directory,
    KILN_BLOBS: `file:${blobDirectory(place)}`,
    KILN_FIRST_KEY: "off",
    // A service in this process logs no requests, so only this one could tell a secret of each.
    KILN_ACCESS_LOG: "on",
    KILN_RATE_LIMITS: rateLimits(http.rateLimits),
    ...(http.publicUrl === undefined ? {} : { PUBLIC_URL: http.publicUrl }),
    ...(http.signingKeys === undefined ? {} : { KILN_SIGNING_KEYS: http.signingKeys }),
    ...(http.trustedProxies.length === 0 ? {} : { KILN_TRUSTED_PROXIES: http.trustedProxies.join(",") }),
    ...(settings.live === true ? { KILN_PROVIDER: "sandbox" } : {}),
    KILN_CONFIG: serviceConfig,
    CONTRACT_RUNNER: String(process.pid),
    CONTRACT_ENGINE: JSON.stringify(engineSettings(settings)),
  }
}

/**
 * Starts a service as processes of its own on one Postgres database and one blob directory: one that answers requests,
 * and one that answers requests and runs jobs. What tests do behind its back they do from here, as an operator would.
 */
export const startProcesses = async (settings: ServiceSettings, place: Place): Promise<Service> => {
  const backstage = Layer.mergeAll(
    PostgresStores.layer({ url: place.databaseUrl, notifications: false, connectTimeoutMs: 30_000 }),
    FileBlobStore.layer({ directory: blobDirectory(place) }),
    IdGenerator.layer,
  )
  const runtime = ManagedRuntime.make(backstage)
  const run = <A>(effect: Effect.Effect<A, unknown, Backstage>) => runtime.runPromise(effect)
  const start = async (role: "all" | "api") => {
    const process = await serve({ ...environment(settings, place), KILN_ROLE: role })
    const [, port] = await process.says(/^contract: port (\d+)$/m, "stderr")
    return { process, port: Number(port) }
  }
  const last = start(settings.worker === false ? "api" : "all")
  const starting = settings.oneProcess === true ? [last] : [start("api"), last]
  const started = await Promise.allSettled(starting)
  const processes = started.flatMap((one) => (one.status === "fulfilled" ? [one.value.process] : []))
  const failed = started.find((one) => one.status === "rejected")
  if (failed !== undefined) {
    await Promise.all(processes.map((one) => one[Symbol.asyncDispose]()))
    await runtime.dispose()
    throw failed.reason
  }
  const [port, ...others] = started.flatMap((one) => (one.status === "fulfilled" ? [one.value.port] : []))
  if (port === undefined) throw new Error("nothing was started")
  return {
    store: "postgres",
    ports: [port, ...others],
    settings,
    get logs() {
      return processes.flatMap(({ stderr, stdout }) => `${stderr}\n${stdout}`.split("\n"))
    },
    run,
    createKey: (key = {}) => run(createKey(key)),
    stop: async () => {
      for (const one of processes) one.kill("SIGTERM")
      // A request that a failed row left open is waited for; that must not be a second failure.
      const ended = await Promise.all(processes.map((one) => one.ended(2 * graceMs)))
      await runtime.dispose()
      for (const { exit, stderr } of ended) expect(exit, stderr).toBe(0)
    },
  }
}
