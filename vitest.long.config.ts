import { defineConfig } from "vitest/config"
import base from "./vitest.config.ts"

// What takes too long for the test command: `pnpm test:long`. One after the other, so that each has the machine.
export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ["packages/*/test/**/*.long.ts", "tests/long/*.long.ts"],
    fileParallelism: false,
  },
})
