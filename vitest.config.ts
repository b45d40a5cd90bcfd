import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * The tier is the mode, and the last part of a test file's name: `vitest run` runs `*.test.ts`, `vitest run --mode system`
 * runs `*.system.ts`. CONTRIBUTING.md says what belongs where.
 */
const tiers = new Set(["test", "system", "proof", "long"])

/** Small files that take the longest. Vitest starts large files first, and would run these alone at the end. */
const longest = [
  /\/(adapter-postgres\/test\/conformance|contract\/(live|uploads)|cli\/test\/commands)\.test\.ts$/,
  /\/(custom-kind\/main|rollingDeployment|stopped|S3BlobStore\.faults|corpus|publish|histories|killSweep|interleavings|flows)\.system\.ts$/,
  /\/(UnstorageBlobStore\.conformance|postgresJobs|postgresFiles|rates|switchOff|billing|lostCommit|pausing|copiedDatabase)\.system\.ts$/,
]

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const isLong = ({ moduleId }: TestSpecification): boolean => longest.some((name) => name.test(moduleId))
    return (await super.sort(files)).toSorted((one, other) => Number(isLong(other)) - Number(isLong(one)))
  }
}

const report = process.env["KILN_TEST_REPORT"]

export default defineConfig(({ mode }) => {
  // Other tools read this file in modes of their own.
  const tier = tiers.has(mode) ? mode : "test"
  return {
    // Packages import each other's sources, so tests run without a build step.
    resolve: { conditions: ["@kiln/source"] },
    ssr: { resolve: { conditions: ["@kiln/source", "node"] } },
    test: {
      include: [`packages/*/test/**/*.${tier}.ts`, `tests/**/*.${tier}.ts`, `examples/**/*.${tier}.ts`],
      // One Postgres for all test files, started when the first of them asks.
      globalSetup: ["packages/postgres-lab/src/globalSetup.ts"],
      // Vite would make it the mode; Express says more about errors anywhere but in tests.
      env: { NODE_ENV: "test" },
      // Some tests run on other stores in another tier.
      provide: { tier },
      // Files of the first tier share a process: loading `effect` and the sources again for each took half of their time.
      isolate: tier !== "test",
      // Limits for a slow and busy machine. No assertion depends on them.
      testTimeout: tier === "test" ? 120_000 : tier === "system" ? 300_000 : 900_000,
      hookTimeout: 180_000,
      // `.ci/run` counts from a report; people read the default one.
      reporters: report === undefined ? ["default"] : ["default", ["json", { outputFile: report }]],
      // Two cores are the smallest machine supported. System tests often wait for processes, timeouts and the ends of leases, and
      // those of the first tier for Postgres: that many workers together use about two cores.
      maxWorkers: tier === "system" ? 4 : tier === "test" ? 3 : 2,
      sequence: { sequencer: LongestFirst },
      // Each file of the long tier measures, and has the machine to itself.
      fileParallelism: tier !== "long",
    },
  }
})
