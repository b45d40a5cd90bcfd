import { defineConfig } from "vitest/config"

const report = process.env["KILN_TEST_REPORT"]

export default defineConfig({
  // Packages import each other's sources, so tests run without a build step.
  resolve: { conditions: ["@kiln/source"] },
  ssr: { resolve: { conditions: ["@kiln/source", "node"] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "tests/**/*.test.ts", "examples/**/*.test.ts"],
    // One Postgres for all test files, started when the first of them asks.
    globalSetup: ["packages/postgres-lab/src/globalSetup.ts"],
    // Of no figure that is asserted: how long a machine that does other things as well may take for what takes seconds.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // `.ci/run` counts from a report; people read the default one.
    reporters: report === undefined ? ["default"] : ["default", ["json", { outputFile: report }]],
    // Two cores are the smallest machine supported; more workers only add noise there.
    maxWorkers: 2,
  },
})
