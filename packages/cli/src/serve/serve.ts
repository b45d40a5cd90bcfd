import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { EngineConfig } from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { HttpService, Readiness } from "@kiln/http"
import { type CommandFailed, misused } from "../CommandFailed.ts"
import { type Base, layerBase, layerHttp, layerWorker } from "../kilnLayer.ts"
import { localFilesHint } from "../layerBlobs.ts"
import { print } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"
import type { ReadSettings, Settings } from "../Settings.ts"
import { databaseSilent } from "../startProblems.ts"
import type { OtelSettings } from "../telemetry/otelSettings.ts"
import { banner } from "./banner.ts"
import { firstKey } from "./firstKey.ts"
import { makeReload } from "./reload.ts"
import { limitStop, makeStopSignals, type StopSignals } from "./stopSignal.ts"
import { readTelemetry, startMeasuring, withTelemetry } from "./telemetry.ts"
import type { Environment } from "../settings/settingFiles.ts"
import { AuditLog } from "@kiln/core/ports"

/** The first descriptor that systemd passes. */
const firstDescriptor = 3

/**
 * Returns the descriptor of the listening socket that systemd opened for this process (`kiln-api@.socket`), or `undefined`. Such a
 * socket stays open while kiln restarts: connections wait in it instead of being refused.
 */
export const inheritedSocket = (
  { LISTEN_FDS: count, LISTEN_PID: pid }: Environment,
  ownPid: number = process.pid,
): Effect.Effect<number | undefined, CommandFailed> => {
  // The variables are inherited by child processes, which they do not concern.
  if (count === undefined || pid !== String(ownPid)) return Effect.undefined
  return count === "1"
    ? Effect.succeed(firstDescriptor)
    : Effect.fail(misused(`the socket unit passes ${count} sockets; kiln serves one: use one ListenStream= per unit`))
}

/** Milliseconds between two removals. Retention is counted in days. */
const everyMs = 3_600_000

/**
 * Removes entries of the audit log that are past their retention, at the start and once an hour. Only a service does: a command
 * may run with another environment, and must not remove what the service keeps.
 */
export const pruneAuditLog = (retentionMs: number): Effect.Effect<void, never, AuditLog> =>
  retentionMs === 0
    ? Effect.void
    : Effect.flatMap(AuditLog, (log) => log.prune(retentionMs)).pipe(
        Effect.catch((error) =>
          Effect.logWarning(`old entries of the audit log were not removed: ${databaseSilent(error).message}`),
        ),
        Effect.andThen(Effect.sleep(everyMs)),
        Effect.forever,
      )

/**
 * Prints the address of the service to standard output. The first key is created only now that the service listens, because
 * it is shown once, and a failed start must not waste it. It is shown on a terminal; a pipe or a file gets it only on
 * request, because logs are kept and read by others.
 */
const announce = (settings: Settings, asJson: boolean) =>
  Effect.gen(function* () {
    const { url } = yield* HttpService
    const key = yield* firstKey(settings.firstKey, asJson || process.stdout.isTTY)
    const docs = settings.http.pages ? `${url}/docs` : undefined
    const json = { url, docs_url: docs ?? null, first_key: typeof key === "object" ? key : null }
    yield* print(asJson ? JSON.stringify(json) : banner({ url, docs, firstKey: key })).pipe(
      Effect.catch(({ message }) => Effect.logWarning(message)),
    )
  }).pipe(Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseSilent(error))))

/**
 * Starts the parts of the service that run in this process, each until `parts` closes. The service keeps accepting requests for
 * the stop delay. Returns it, unless this process only runs jobs.
 */
const start = Effect.fnUntraced(function* (
  settings: Settings,
  asJson: boolean,
  parts: Scope.Scope,
  signals: StopSignals,
  attach: (worker: Worker["Service"]) => void,
): Effect.fn.Return<HttpService["Service"] | undefined, CommandFailed, Base> {
  if (settings.role !== "api") {
    const built = yield* Layer.buildWithScope(layerWorker, yield* Scope.fork(parts))
    attach(Context.get(built, Worker))
  }
  if (settings.role === "worker") {
    yield* Effect.logInfo("the worker is running")
    return undefined
  }
  const scope = yield* Scope.fork(parts)
  const http = yield* Layer.buildWithScope(layerHttp, scope)
  yield* Scope.addFinalizer(scope, signals.delay(settings.stopDelayMs))
  yield* Effect.provide(announce(settings, asJson), http)
  const service = Context.get(http, HttpService)
  yield* warnOfUnreachableUrls(settings, service.url)
  return service
})

/** Warns if signed URLs would not lead to the service: for other machines, or because it listens at another address. */
const warnOfUnreachableUrls = ({ http: { host, publicUrl } }: Settings, url: string): Effect.Effect<void> =>
  publicUrl !== undefined || ["127.0.0.1", "localhost"].includes(host)
    ? Effect.void
    : Effect.logWarning(
        `PUBLIC_URL is not set, so upload and file URLs begin with ${url}, but kiln listens at ${host}: set PUBLIC_URL to the address that clients use`,
      )

const warnings = (settings: Settings): ReadonlyArray<string> => [
  ...(settings.provider?._tag === "Sandbox"
    ? ["KILN_PROVIDER=sandbox: live jobs run on sandbox models and are charged; for rehearsals only"]
    : []),
  ...(settings.engine.forcedOff ?? []).map(
    (name) =>
      `KILN_SWITCH_${name.toUpperCase()}=off: the switch ${name} is off in this process, regardless of kiln switch`,
  ),
]

/**
 * Runs the service until a signal shuts it down gracefully: it reports that it is not ready and claims no more jobs. After the
 * stop delay, it stops accepting connections. Running jobs finish or are released when the drain ends, and the stores close last.
 */
export const serve = (
  { given, settings: own }: Extract<ReadSettings, { readonly ok: true }>,
  asJson: boolean,
): Effect.Effect<void, CommandFailed> =>
  Effect.gen(function* () {
    const { environment } = yield* ProcessIo
    const socket = yield* inheritedSocket(environment)
    const telemetry = yield* readTelemetry(environment)
    const settings = { ...own, http: { ...own.http, socket } }
    const signals = yield* makeStopSignals(settings.role === "worker" ? 0 : settings.stopDelayMs)
    const service = withTelemetry(telemetry, settings.role, run(settings, given, telemetry, asJson, signals))
    yield* Effect.raceFirst(service, signals.stopped)
  })

const run = (
  settings: Settings,
  given: Extract<ReadSettings, { readonly ok: true }>["given"],
  telemetry: OtelSettings | undefined,
  asJson: boolean,
  signals: StopSignals,
): Effect.Effect<void, CommandFailed> =>
  Effect.gen(function* () {
    for (const warning of warnings(settings)) yield* Effect.logWarning(warning)
    const isMeasured = settings.management !== undefined || telemetry?.exports.has("METRICS") === true
    const base = yield* Layer.build(layerBase(settings, isMeasured))
    const hint = localFilesHint(settings)
    if (hint !== undefined) yield* Effect.logInfo(hint)
    const { drainMs } = yield* Effect.provide(Effect.flatMap(EngineConfig, Effect.succeed), base)
    const { attach, observers } = yield* Effect.provide(startMeasuring(settings, telemetry), base)
    const parts = yield* Effect.acquireRelease(Scope.make("parallel"), (scope) => Scope.close(scope, Exit.void))
    yield* Effect.addFinalizer(() => limitStop(settings.stopDelayMs + drainMs))
    yield* Effect.addFinalizer(() => Context.get(base, Readiness).markStopping)
    yield* Effect.forkScoped(Effect.provide(pruneAuditLog(settings.auditRetentionMs), base))
    const services = Context.merge(base, observers)
    const http = yield* Effect.provide(start(settings, asJson, parts, signals, attach), services)
    yield* collectStartUp
    const reload = makeReload(given, http)
    return yield* Effect.forever(Effect.andThen(signals.nextReload, reload))
  }).pipe(Effect.scoped)

/**
 * Collects the garbage of startup once the service listens. Loading and compiling several hundred modules leaves about 50 MB
 * that V8 would keep as room to grow; the process must stay below 300 MB with fifty concurrent uploads of 25 MiB. Takes some
 * tens of milliseconds, once.
 */
const collectStartUp: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as ((options: { type: string; flavor: string }) => void) | undefined
  collect?.({ type: "major", flavor: "last-resort" })
})
