// A test runner for Stryker that keeps the tests loaded: a test of this repository takes milliseconds, and loading them took seconds for
// each mutant.
import { globSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { BroadcastChannel } from "node:worker_threads"
import { createVitest, type Vitest } from "vitest/node"
import { receive, type Request, type Response, send } from "./messages.ts"

interface MutantRun {
  readonly testFilter?: ReadonlyArray<string>
  readonly hitLimit?: number
  readonly activeMutant: { readonly id: string; readonly fileName: string }
  readonly mutantActivation: "runtime" | "static"
}

const testsOf = (globs: string): ReadonlyArray<string> => {
  const found = globs.split(" ").flatMap((glob) => globSync(glob).toSorted())
  return [...new Set(found)].map((file) => join(process.cwd(), file))
}

/** Returns the names of a source's own tests: `leaseWatch` for a file that exports `LeaseWatch`, and the name of the file. */
const ownTestsOf = (source: string): ReadonlyArray<string> => {
  const exported = readFileSync(source, "utf8").matchAll(/^export (?:abstract )?(?:class|const|interface|type) (\w+)/gm)
  return [basename(source, ".ts"), ...[...exported].flatMap(([, name]) => name ?? [])].map((name) => name.toLowerCase())
}

class LoadedTestRunner {
  #vitest: Vitest | undefined
  #channel: BroadcastChannel | undefined
  readonly #times = new Map<string, number>()
  #mustReload = false
  #loads = 0

  capabilities() {
    return { reloadEnvironment: true }
  }

  init(): Promise<void> {
    return this.#load("")
  }

  async dryRun() {
    const { coverage, runs } = await this.#ask({ type: "dry" })
    for (const { id, ms } of runs) this.#times.set(id, ms)
    // Such a test needs a process of its own, or can run only once. It is left out.
    const failed = new Map(runs.flatMap(({ error, id }) => (error === undefined ? [] : [[id, error] as const])))
    for (const [id, error] of failed) console.error(`left out, because it fails beside others: ${id}: ${error}`)
    const tests = runs
      .filter(({ id }) => !failed.has(id))
      .map(({ id, ms }) => ({
        id,
        name: id,
        fileName: id.slice(0, id.indexOf("#")),
        timeSpentMs: ms,
        status: 0,
      }))
    return { status: "complete", tests, mutantCoverage: coverage }
  }

  async mutantRun({ activeMutant, hitLimit, mutantActivation, testFilter }: MutantRun) {
    const isStatic = mutantActivation === "static"
    if (this.#mustReload || isStatic) await this.#load(isStatic ? activeMutant.id : "")
    this.#mustReload = isStatic
    const request = {
      type: "mutant" as const,
      activeMutant: activeMutant.id,
      hitLimit,
      ownTests: ownTestsOf(activeMutant.fileName),
      tests: testFilter,
      times: this.#times,
    }
    let response = await this.#ask(request)
    if (response.isStained) {
      await this.#load("")
      response = await this.#ask(request)
    }
    const failed = response.runs.find(({ error }) => error !== undefined)
    const nrOfTests = response.runs.length
    if (failed === undefined) return { status: "survived", nrOfTests }
    if (response.isStained) this.#mustReload = true
    return { status: "killed", killedBy: [failed.id], failureMessage: failed.error ?? "", nrOfTests }
  }

  async dispose(): Promise<void> {
    this.#channel?.close()
  }

  /** Loads the tests into a new worker. */
  async #load(staticMutant: string): Promise<void> {
    this.#channel?.close()
    void this.#vitest?.close()
    const name = `kiln-mutation-${(this.#loads += 1)}`
    const channel = new BroadcastChannel(name)
    this.#channel = channel
    const vitest = await createVitest("test", {
      config: "scripts/mutation/loaded.config.ts",
      pool: "threads",
      maxWorkers: 1,
      watch: false,
      coverage: { enabled: false },
      onConsoleLog: () => false,
    })
    this.#vitest = vitest
    vitest.provide("testFiles", testsOf(process.env["KILN_MUTATION_TESTS"] ?? ""))
    vitest.provide("channel", name)
    vitest.provide("staticMutant", staticMutant)
    const loaded = receive<Response>(channel)
    const ran = vitest.start().then(() => {
      throw new Error("the tests could not be loaded")
    })
    await Promise.race([loaded, ran])
    ran.catch(() => undefined)
  }

  #ask(request: Request): Promise<Response> {
    if (this.#channel === undefined) throw new Error("the tests are not loaded")
    const response = receive<Response>(this.#channel)
    send(this.#channel, request)
    return response
  }
}

export const strykerPlugins = [{ kind: "TestRunner", name: "loaded", injectableClass: LoadedTestRunner }]
