// Changes the sources in a copy of the repository, one small change (mutant) at a time, and runs the tests that reach it:
// `pnpm mutation [path…]`, for example `pnpm mutation packages/core/src/domain/JobState.ts`. Prints the mutants that no test noticed.
// The copy keeps an interrupted run from leaving mutants in the sources.
//
// A statement in SQL is one string to that. `pnpm mutation --statements sqlite|postgres [name…] [--sample N] [--seed S]` changes statements
// and functions of the database instead, where they run: names are source files of the adapter, or functions.
import { execFileSync, spawnSync } from "node:child_process"
import { cpSync, globSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { runStatements } from "./mutation/runStatements.ts"

const root = join(import.meta.dirname, "..")
const coreTests = "packages/core/test"

/**
 * Tests of the worker and the engine over the memory store, nearly all in virtual time, and a short simulation: they take about fifteen
 * seconds together. A mutant needs only those that reach it.
 */
const quickTests = [
  "scripts/mutation/simulated.ts",
  "packages/simulation/test/{batches,deliveries}.test.ts",
  `${coreTests}/{afterFailure,attemptRecord,bag,circuit,claimAhead,concurrencyLimits,createEngine,createJob,deadlines}.test.ts`,
  `${coreTests}/{fairness,filesInProgress,fingerprint,groupCommit,idling,joint*,kindVersions,lastChance,leaseWatch}.test.ts`,
  `${coreTests}/{attemptOutcomes,leftFibers,limitsWith,live,lostEnds,matchingJobs,openFile,outage,pacedSteps,pieceWriter,publicError,rates}.test.ts`,
  `${coreTests}/{readUpload,receiveUpload,recovery,releasableBytes,shared*,spans,stepNames,sweepPace,tokenPortion}.test.ts`,
  `${coreTests}/{waitForJob,waitingClaims,wakeUp,worker,copies/lineage,faults/*}.test.ts`,
  `${coreTests}/providers/{asyncProviders,guard,pause,sandboxLimits,sharedRate}.test.ts`,
  `${coreTests}/embed/{acceptedOptions,after,attemptEngine,batch,changedRetries,charges,children,drain,emptyClaims}.test.ts`,
  `${coreTests}/embed/{errorMessages,failures,files,inheritedNames,jobKind,lifecycle,logMessages,mistakes*,operator}.test.ts`,
  `${coreTests}/embed/{othersCode,othersGoOn,prices,progress,requests,retention,retried*,schedule*,silentDone}.test.ts`,
  `${coreTests}/embed/{streams,submit{,Many,Options,With},unknownOptions,values,waiting,waits,wrongOptions}.test.ts`,
]

/** Tests of a part, the fastest and strictest first: a mutant's tests stop at the first failure. */
const parts: ReadonlyArray<{ readonly source: string; readonly tests: ReadonlyArray<string> }> = [
  {
    source: "packages/core/src/domain/",
    tests: [
      ...["jobTransition", "acceptance", "spendCap", "rateLimit", "repeatedEnd", "circuit"].map(
        (name) => `${coreTests}/${name}.test.ts`,
      ),
      `${coreTests}/domain/*.test.ts`,
      `${coreTests}/{waitingForProperties,storeTime,Decimal,ApiKey,AudioFormat,CanonicalJson,attemptRecord,diskProblem}.test.ts`,
      `${coreTests}/{realms,afterFailure,limitsWith,publicError,stepNames,cronTimes,copies/lineage}.test.ts`,
      "packages/conformance/test/model/*.test.ts",
      "packages/testing/test/memoryStores.test.ts",
      "tests/errors.test.ts",
      `${coreTests}/{fairness,concurrencyLimits,rates,waitingClaims,embed/schedules,embed/progress}.test.ts`,
    ],
  },
  { source: "packages/core/src/worker/", tests: quickTests },
  { source: "packages/core/src/engine/", tests: quickTests },
  { source: "packages/core/src/", tests: [`${coreTests}/**/*.test.ts`] },
  { source: "packages/sql-store/src/", tests: ["packages/adapter-sqlite/test/**/*.test.ts"] },
  {
    source: "packages/adapter-sqlite/src/jobs/",
    tests: [
      "packages/adapter-sqlite/test/conformance.test.ts",
      "packages/adapter-sqlite/test/{repeatedEnds,queueCaps,spendCaps,storeTime,fullSlots,costs,damage,callerTransactions}.test.ts",
    ],
  },
  { source: "packages/adapter-sqlite/src/", tests: ["packages/adapter-sqlite/test/**/*.test.ts"] },
  { source: "packages/adapter-postgres/src/", tests: ["packages/adapter-postgres/test/**/*.test.ts"] },
]

/** Copies the files that are or could be committed, and the links to installed packages. */
const copyTo = (directory: string): void => {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
  const files = execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0")
  for (const file of files) if (file !== "") cpSync(join(root, file), join(directory, file), { force: true })
  const installed = ["node_modules/*", "node_modules/@*/*"].flatMap((glob) => [glob, `{packages,examples}/*/${glob}`])
  for (const link of globSync(installed, { cwd: root, withFileTypes: true }).filter((entry) =>
    entry.isSymbolicLink(),
  )) {
    const path = join(link.parentPath, link.name)
    const to = join(directory, path.slice(root.length))
    mkdirSync(dirname(to), { recursive: true })
    // Links between packages are relative, so that they lead to the copies.
    symlinkSync(readlinkSync(path), to)
  }
  symlinkSync(join(root, "node_modules/.pnpm"), join(directory, "node_modules/.pnpm"))
}

const testsOf = (path: string): ReadonlyArray<string> | undefined =>
  parts.find(({ source }) => `${path}/`.startsWith(source))?.tests

const runSources = (paths: ReadonlyArray<string>): void => {
  const [tests, ...others] = new Set(paths.map((path) => testsOf(path)))
  if (tests === undefined || others.length > 0)
    throw new TypeError(`expected paths in one of ${parts.map((part) => part.source).join(", ")}`)

  /** Whether the tests stay loaded. Those of the other parts open databases, or have not been tried. */
  const isLoadedOnce = tests === quickTests
  const directory = mkdtempSync(join(tmpdir(), "kiln-mutation-"))
  try {
    copyTo(directory)
    const report = join(tmpdir(), "kiln-mutation.json")
    const config = {
      inPlace: true,
      // Also `file.ts:10-40`.
      mutate: paths.map((path) => (/\.ts(:|$)/.test(path) ? path : `${path}/**/*.ts`)),
      ...(isLoadedOnce
        ? { testRunner: "loaded", plugins: ["./scripts/mutation/runner.ts"] }
        : {
            testRunner: "vitest",
            plugins: ["@stryker-mutator/vitest-runner"],
            vitest: { configFile: "scripts/mutation/vitest.config.ts", related: false },
          }),
      // TypeScript 7 has no API that could read it.
      tsconfigFile: "none",
      coverageAnalysis: "perTest",
      concurrency: 1,
      // A static mutant is active only if the sources are loaded again, and most of those of these parts are messages.
      ignoreStatic: isLoadedOnce,
      timeoutMS: 20_000,
      reporters: ["progress-append-only", "clear-text", "json"],
      jsonReporter: { fileName: report },
      clearTextReporter: { reportTests: false, logTests: false, allowColor: false },
    }
    writeFileSync(join(directory, "stryker.config.json"), JSON.stringify(config))
    const { status } = spawnSync(
      process.execPath,
      ["node_modules/@stryker-mutator/core/bin/stryker.js", "run", "stryker.config.json"],
      { cwd: directory, stdio: "inherit", env: { ...process.env, KILN_MUTATION_TESTS: tests.join(" ") } },
    )
    console.log(`every mutant: ${report}`)
    process.exitCode = status ?? 1
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const usage = `usage: pnpm mutation [path…]    (default: packages/core/src/domain; also file.ts:10-40)
       pnpm mutation --statements sqlite|postgres [name…] [--sample N] [--seed S] [--checks N] [--histories N] [--log FILE]
Paths are in one of ${parts.map(({ source }) => source).join(", ")}.`

const given = process.argv.slice(2)
if (given.includes("--help")) console.log(usage)
else if (given[0] === "--statements") await runStatements(given.slice(1))
else runSources(given.length > 0 ? given : ["packages/core/src/domain"])
