import { type AnyProvider, type BuiltInKind, type Kind, type ProviderName, providerNames } from "@kiln/core"
import { openEmbedded } from "@kiln/core/effect"
import { Clock, Effect, Layer, Random } from "effect"
import { type FakeProviders, makeFakeProviders } from "../fakes/FakeProviders.ts"
import { programmable } from "../fakes/ProgrammableProviders.ts"
import { memoryBlobs, memoryStore } from "../memory/adapters.ts"
import { checkTestOptions } from "./checkTestOptions.ts"
import { manualMethods, inline } from "./manualMethods.ts"
import { openEngineScope } from "./EngineScope.ts"
import { makeTimeControl } from "./TimeControl.ts"
import { openForLive, serveLiveForEver } from "./prepareLive.ts"
import { makeRunner } from "./Runner.ts"
import { noteSubmissions } from "./submissions.ts"
import type { TestEngine, TestEngineOptions } from "./TestEngine.ts"
import { makeVirtualTime } from "./VirtualTime.ts"

/** Far enough from today for a time that came from somewhere else to show. */
const defaultStartMs = Date.UTC(2030, 0, 1)

/** Backoff is the same in every run: half of what it may be at most. */
const sameChance = Layer.succeed(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 0 })

/**
 * A whole engine in memory: `await using kiln = await testEngine()`. Fakes answer, live jobs have their prices and switches,
 * and jobs are run as `mode` says: by default to their end, before `submit` resolves.
 */
export const testEngine = async <K extends Kind = BuiltInKind>(
  options: TestEngineOptions<K> = {},
): Promise<TestEngine<K>> => {
  checkTestOptions(options)
  const { jobMode = "sandbox", mode = "inline", prices = {} } = options
  const fakes = makeFakeProviders()
  const time = makeVirtualTime(options.startAt?.getTime() ?? defaultStartMs)
  const live = mode === "live"
  const engine = await openEmbedded<K>(
    // Whether these providers serve these kinds is the test's own affair: a job that nobody serves stays queued.
    partsOf(options, fakes) as never,
    {
      defaultMode: jobMode,
      // A test may be about just that.
      unserved: true,
      ...(!live && { references: Layer.merge(time.references, sameChance), sweeps: false, concurrency: 1 }),
    },
  )
  const { context, runInEngine, stop } = openEngineScope(engine)
  const kit = {
    providers: programmable(fakes),
    submitted: noteSubmissions<K>(context, runInEngine),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
  if (prices !== false) await runInEngine(openForLive(prices))
  if (mode === "live") {
    await engine.start()
    return Object.assign(engine, kit, byItself)
  }
  await runInEngine(serveLiveForEver)
  const timeControl = makeTimeControl(time, runInEngine)
  const runner = makeRunner(context, runInEngine, time, timeControl, fakes, mode)
  Object.assign(engine, mode === "inline" && inline(engine, timeControl, runner))
  return Object.assign(engine, kit, manualMethods(engine, time, timeControl, runner, mode))
}

const partsOf = <K extends Kind>(
  { kinds, log, probe, providers = {}, settings }: TestEngineOptions<K>,
  fakes: FakeProviders,
) => {
  const ports = { ...fakes.providers, voiceTurn: fakes.voiceTurn }
  const set: { [Name in ProviderName]?: AnyProvider<Name> } = {}
  for (const name of providerNames) {
    const given = providers[name] ?? (name === "voiceTurn" ? "none" : "fake")
    if (given !== "none") Object.assign(set, { [name]: given === "fake" ? ports[name] : given })
  }
  return {
    store: memoryStore(),
    blobs: memoryBlobs(),
    providers: { sandbox: set, live: set },
    autoStart: false,
    log: log ?? false,
    ...(kinds && { kinds }),
    ...(probe && { probe }),
    ...(settings !== undefined && { settings }),
  }
}

const notByHand = () => Promise.reject(new TypeError("a live test engine runs its jobs by itself, in real time"))

const byItself = {
  now: () => new Date(Effect.runSync(Clock.currentTimeMillis)),
  advance: notByHand,
  runNext: notByHand,
  drain: notByHand,
}
