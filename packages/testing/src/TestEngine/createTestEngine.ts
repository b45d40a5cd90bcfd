import { givenField } from "@kiln/core/domain"
import { type BuiltInKind, builtInKinds, type Kind } from "@kiln/core"
import type { JobId } from "@kiln/core/domain"
import { JobEvents, openEmbedded } from "@kiln/core/effect"
import { builtInPorts, type ProviderPort } from "@kiln/core/providers"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { type FakeProviders, makeFakeProviders } from "../fakes/FakeProviders.ts"
import { programmable, type ProgrammableProviders } from "../fakes/ProgrammableProviders.ts"
import { memoryBlobs } from "../memory/adapters.ts"
import { checkTestOptions, portsIn } from "./checkTestOptions.ts"
import { inlineVerbs, manualVerbs, watchedVerbs } from "./virtualVerbs.ts"
import { accessEngine } from "./EngineAccess.ts"
import { makeTimeTravel } from "./TimeTravel.ts"
import { openForLive, serveLiveForEver } from "./prepareLive.ts"
import { makeRunner } from "./Runner.ts"
import { transactionalStore, transactionVerbs } from "./transactions.ts"
import { noteSubmissions } from "./submissions.ts"
import type { CustomPort, TestEngine, TestEngineOptions } from "./TestEngine.ts"
import { makeVirtualTime } from "./VirtualTime.ts"

/** Far enough from today that a time from another clock is noticed. */
const defaultStartMs = Date.UTC(2030, 0, 1)

/** Makes backoff the same in every run: half of its maximum. */
const sameChance = Layer.succeed(Random.Random, { nextDoubleUnsafe: () => 0.5, nextIntUnsafe: () => 0 })

/**
 * Creates a complete engine in memory: `await using kiln = await testEngine()`. Fakes answer, live jobs have their prices and
 * switches, and jobs run as `mode` says: by default to their end, before `submit` resolves.
 */
export const testEngine = async <K extends Kind = BuiltInKind>(
  options: TestEngineOptions<K> = {},
): Promise<TestEngine<K>> => {
  checkTestOptions(options)
  const { jobMode = "sandbox", mode = "inline", prices = {} } = options
  const known = portsIn(options.kinds)
  const custom = known.slice(builtInPorts.length)
  const fakes = makeFakeProviders(custom)
  const time = makeVirtualTime(options.startAt?.getTime() ?? defaultStartMs)
  const live = mode === "live"
  const store = transactionalStore()
  const engine = await openEmbedded<K, object, object>(
    // The test decides whether its providers serve its kinds: a job without a provider stays queued.
    { ...partsOf(options, known, fakes), store: store.adapter } as never,
    {
      defaultMode: jobMode,
      // A test may be about just that.
      unserved: true,
      ...(!live && { references: Layer.merge(time.references, sameChance), sweeps: false, concurrency: 1 }),
    },
  )
  const { context, inside, stop } = accessEngine(engine)
  const submissions = noteSubmissions<K>(context, inside)
  const transactional = (finish: (jobId: JobId) => Promise<void>) =>
    transactionVerbs(store, async (jobIds) => {
      submissions.add(jobIds)
      for (const jobId of jobIds) await finish(jobId)
    })
  const kit = {
    providers: programmable(fakes, custom) as object as ProgrammableProviders<CustomPort<K>>,
    submitted: submissions.list,
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
  if (prices !== false) await inside(openForLive(prices))
  if (mode === "live") {
    await engine.start()
    return Object.assign(engine, kit, byItself, transactional(noWait))
  }
  await inside(serveLiveForEver)
  const timeTravel = makeTimeTravel(time, inside)
  const runner = makeRunner(context, inside, time, timeTravel, fakes, mode)
  Object.assign(engine, mode === "inline" && inlineVerbs(engine, timeTravel, runner, Context.get(context, JobEvents)))
  const finish = mode === "inline" ? runner.finish : noWait
  const verbs = manualVerbs(engine, time, timeTravel, runner, mode)
  return Object.assign(engine, kit, mode === "manual" ? watchedVerbs(engine, verbs) : verbs, transactional(finish))
}

const partsOf = <K extends Kind>(
  { kinds, log, probe, providers = {}, settings }: TestEngineOptions<K>,
  ports: ReadonlyArray<ProviderPort>,
  { providers: fakes, voiceTurn }: Pick<FakeProviders, "providers" | "voiceTurn">,
) => {
  const faked: Readonly<Record<string, unknown>> = { ...fakes, voiceTurn }
  const set = Object.create(null) as Record<string, unknown>
  for (const { name } of ports) {
    const given = givenField(providers, name) ?? (name === "voiceTurn" ? "none" : "fake")
    if (given !== "none") set[name] = given === "fake" ? givenField(faked, name) : given
  }
  return {
    blobs: memoryBlobs(),
    providers: { sandbox: set, live: set },
    autoStart: false,
    log: log ?? false,
    kinds: kinds ?? builtInKinds(),
    ...(probe && { probe }),
    ...(settings !== undefined && { settings }),
  }
}

const noWait = async (): Promise<void> => undefined

const rejectLive = () =>
  Promise.reject(
    new TypeError("a live test engine runs its jobs in real time; advance(), runNext() and drain() are not available"),
  )

const byItself = {
  now: () => new Date(Effect.runSync(Clock.currentTimeMillis)),
  advance: rejectLive,
  runNext: rejectLive,
  drain: rejectLive,
}
