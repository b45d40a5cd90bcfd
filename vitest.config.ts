import { defineConfig } from "vitest/config"

export default defineConfig({
  // Packages import each other's sources, so tests run without a build step.
  resolve: { conditions: ["@kiln/source"] },
  ssr: { resolve: { conditions: ["@kiln/source", "node"] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "tests/**/*.test.ts", "examples/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two cores are the smallest machine supported; more workers only add noise there.
    maxWorkers: 2,
  },
})
