// Runs inWorker.ts, for runner.ts.
import configOf from "../../vitest.config.ts"

const config = configOf({ command: "serve", mode: "test" })

export default {
  ...config,
  test: {
    ...config.test,
    include: ["scripts/mutation/inWorker.ts"],
    reporters: [],
    sequence: {},
  },
}
