import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { HttpService } from "@kiln/http"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { layerBase, layerHttp, layerWorker } from "../kilnLayer.ts"
import { firstKey } from "../serve/firstKey.ts"
import { readSettings } from "../Settings.ts"
import { databaseSilent } from "../startProblems.ts"
import type { Service } from "./Service.ts"

const makeDirectory = Effect.acquireRelease(
  Effect.try({
    try: () => mkdtempSync(join(tmpdir(), "kiln-try-")),
    catch: (cause) => failed(`cannot create a temporary directory: ${causeMessage(cause)}`),
  }),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true, maxRetries: 5 })),
)

/**
 * Starts the service of `kiln serve` in this process, on a free port of the loopback interface, with sandbox models and an empty
 * database. Both end with the scope. The settings of the environment do not reach it.
 */
export const temporaryService: Effect.Effect<Service, CommandFailed, Scope.Scope> = Effect.gen(function* () {
  const directory = yield* makeDirectory
  const read = readSettings({
    PORT: "0",
    KILN_DATA_DIR: directory,
    KILN_DRAIN_SECONDS: "0",
    KILN_RATE_LIMITS: "off",
    KILN_PAGES: "off",
  })
  if (!read.ok) return yield* failed("the temporary service has invalid settings")
  const base = yield* Layer.build(layerBase(read.settings))
  yield* Effect.provide(Layer.build(layerWorker), base)
  const { url } = Context.get(yield* Effect.provide(Layer.build(layerHttp), base), HttpService)
  const key = yield* Effect.provide(firstKey("print", true), base)
  if (typeof key !== "object") return yield* failed("the temporary service has no key")
  return { url, key: key.key }
}).pipe(
  Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseSilent(error))),
  // The log of a service is for its operator.
  Effect.provideService(References.MinimumLogLevel, "Error"),
)
