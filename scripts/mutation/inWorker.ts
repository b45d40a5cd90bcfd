// Loads the tests named by scripts/mutation/runner.ts once, and runs them again and again for one mutant after the other. Loading
// them takes longer than running most of them.
import { basename } from "node:path"
import { BroadcastChannel } from "node:worker_threads"
import { describe, inject, TestRunner, test } from "vitest"
import { type MutantCoverage, receive, type Request, type Response, send, type TestRun } from "./messages.ts"

type Task = NonNullable<ReturnType<typeof TestRunner.getCurrentTest>>["file"]["tasks"][number]
type Test = Extract<Task, { readonly type: "test" }>
type Suite = NonNullable<Task["suite"]>

/** The state that instrumented sources share with the code that runs them. */
interface Instrumented {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number | undefined
  mutantCoverage?: MutantCoverage
}

const shared = globalThis as { __stryker__?: Instrumented }
const instrumented = (shared.__stryker__ ??= {})
instrumented.activeMutant = inject("staticMutant") || undefined

interface Known {
  readonly id: string
  readonly test: Test
  readonly run: () => unknown
  readonly suites: ReadonlyArray<Suite>
  kills: number
  /** How long it takes without a mutant, in milliseconds, and how long it took at most to detect one. */
  ms: number
  longestMs: number
}

const known = new Map<string, Known>()

const yieldOf = ({ kills, longestMs, ms }: Known): number => (kills + 0.2) / Math.max(ms, longestMs)

/** Tests of the source's own file come first, then those that often detect mutants in little time. */
const byYield =
  (ownTests: ReadonlyArray<string>) =>
  (one: Known, other: Known): number =>
    Number(isIn(other, ownTests)) - Number(isIn(one, ownTests)) || yieldOf(other) - yieldOf(one)

/** Whether a test is in one of these files: `groupcommit` is `groupCommit.test.ts`. */
const isIn = ({ id }: Known, files: ReadonlyArray<string>): boolean =>
  files.includes(basename(id.slice(0, id.indexOf("#")), ".test.ts").toLowerCase())

const learn = async (task: Task, file: string, names: ReadonlyArray<string>, suites: ReadonlyArray<Suite>) => {
  if (task.mode !== "run" && task.mode !== "queued") return
  if (task.type === "suite") {
    for (const hook of TestRunner.getSuiteHooks(task).beforeAll ?? []) await hook(task)
    for (const each of task.tasks) await learn(each, file, [...names, each.name], [...suites, task])
    return
  }
  const run = TestRunner.getTestFn(task)
  const id = `${file}#${names.join(" > ")}`
  // Memory is enough, and faster.
  if (run !== undefined && !/\b(SQLite|Postgres)\b/.test(id))
    known.set(id, { id, run, suites, test: task, kills: 0, ms: 1, longestMs: 1 })
}

const shortestLimitMs = 3_000

/** Runs a test until it ends, or for much longer than without a mutant: a mutant may let it wait for what never comes. */
const runInTime = async ({ ms, run, test: task }: Known): Promise<void> => {
  // The one of the context stays aborted once a run has taken too long.
  const controller = new AbortController()
  Object.defineProperty(task.context, "signal", { value: controller.signal, configurable: true })
  const limitMs = ms === 1 ? 60_000 : Math.max(shortestLimitMs, 6 * ms)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out after ${limitMs} ms`)), limitMs)
  })
  try {
    await Promise.race([run(), late])
  } catch (error) {
    controller.abort(error)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

const runTest = async (one: Known): Promise<TestRun> => {
  const { id, suites } = one
  const from = performance.now()
  try {
    for (const suite of suites)
      for (const hook of TestRunner.getSuiteHooks(suite).beforeEach ?? []) await hook({} as never, suite)
    await runInTime(one)
    return { id, ms: performance.now() - from, error: undefined }
  } catch (error) {
    return { id, ms: performance.now() - from, error: error instanceof Error ? error.message : String(error) }
  } finally {
    for (const suite of suites)
      for (const hook of TestRunner.getSuiteHooks(suite).afterEach ?? []) await hook({} as never, suite)
  }
}

const dryRun = async (): Promise<Response> => {
  instrumented.activeMutant = undefined
  instrumented.hitCount = undefined
  const runs: Array<TestRun> = []
  for (const one of known.values()) {
    instrumented.currentTestId = one.id
    const run = await runTest(one)
    one.ms = Math.max(1, run.ms)
    runs.push(run)
    if (run.error !== undefined) known.delete(one.id)
  }
  instrumented.currentTestId = undefined
  for (const one of known.values()) {
    const run = await runTest(one)
    if (run.error === undefined) continue
    runs.push(run)
    known.delete(one.id)
  }
  return { runs, isStained: false, coverage: instrumented.mutantCoverage }
}

const mutantRun = async ({
  activeMutant,
  hitLimit,
  ownTests,
  tests,
  times,
}: Extract<Request, { readonly type: "mutant" }>) => {
  instrumented.hitCount = 0
  instrumented.hitLimit = hitLimit
  for (const [id, ms] of times) {
    const one = known.get(id)
    if (one !== undefined && one.ms === 1) one.ms = Math.max(1, ms)
  }
  const chosen = tests === undefined ? [...known.values()] : tests.flatMap((id) => known.get(id) ?? [])
  const runs: Array<TestRun> = []
  let isStained = false
  for (const one of chosen.sort(byYield(ownTests))) {
    instrumented.activeMutant = activeMutant
    const run = await runTest(one)
    instrumented.activeMutant = undefined
    runs.push(run)
    if (run.error === undefined) continue
    one.kills += 1
    // A test that detects mutants by waiting in vain is slow.
    one.longestMs = Math.max(one.longestMs, run.ms)
    // Something that an earlier mutant has left must not count.
    isStained = run.ms < 1_000 && (await runTest(one)).error !== undefined
    break
  }
  return { runs, isStained, coverage: undefined } satisfies Response
}

// Before the others, so that these run only when they are asked for.
// oxlint-disable-next-line vitest/expect-expect -- it runs tests
test("runs tests until the process ends", { timeout: 0 }, async () => {
  const channel = new BroadcastChannel(inject("channel"))
  for (const task of TestRunner.getCurrentTest()?.file.tasks ?? [])
    if (task.type === "suite") await learn(task, task.name, [], [])
  send(channel, { runs: [], isStained: false, coverage: undefined })
  for (;;) {
    const request = await receive<Request>(channel)
    send(channel, await (request.type === "dry" ? dryRun() : mutantRun(request)))
  }
})

for (const file of inject("testFiles"))
  describe(file, async () => {
    await import(/* @vite-ignore */ file)
  })
