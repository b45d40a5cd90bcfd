import { writeFileSync } from "node:fs"
import { expect } from "vitest"
import { set } from "./acts.ts"
import type { Planted } from "./Planted.ts"
import { fileOf } from "./support.ts"

export const settingsProblems: ReadonlyArray<Planted> = [
  {
    what: "settings that are out of range",
    plant: () => ({ PORT: "x" }),
    check: "settings",
    status: "problem",
    seen: /PORT must/,
    remedy: /docs\/configuration\.md/,
    carryOut: async () => ({ PORT: "8080" }),
  },
  {
    what: "a misspelled setting",
    plant: () => ({ KILN_CONCURENCY: "4" }),
    check: "settings",
    status: "warning",
    seen: /did you mean KILN_CONCURRENCY/,
    remedy: /correct or remove/,
    carryOut: async () => ({ KILN_CONCURENCY: undefined, KILN_CONCURRENCY: "4" }),
  },
  {
    what: "a config file that is gone",
    plant: (installation) => ({ KILN_CONFIG: fileOf("gone.ts")(installation) }),
    check: "settings",
    status: "problem",
    seen: /gone\.ts: file not found/,
    remedy: /unset KILN_CONFIG/,
    carryOut: [
      set({ KILN_CONFIG: undefined }),
      async ({ env, printed }) => {
        expect(printed).toContain("correct the file")
        writeFileSync(String(env["KILN_CONFIG"]).replace("gone.ts", "gone.mjs"), "export default {}")
        return { KILN_CONFIG: String(env["KILN_CONFIG"]).replace("gone.ts", "gone.mjs") }
      },
    ],
  },
  {
    what: "two sources of providers",
    plant: (installation) => {
      const path = fileOf("kiln.config.mjs")(installation)
      writeFileSync(path, "export default { providers: { speech: () => {} } }")
      return { KILN_CONFIG: path }
    },
    check: "settings",
    status: "problem",
    seen: /KILN_PROVIDER and the providers in KILN_CONFIG both/,
    remedy: /unset one/,
    carryOut: [
      async () => ({ KILN_PROVIDER: undefined, KILN_OPENAI_API_KEY: undefined }),
      async () => ({ KILN_CONFIG: undefined }),
    ],
  },
  {
    what: "a provider without a key",
    plant: () => ({ KILN_OPENAI_API_KEY: "" }),
    check: "settings",
    status: "problem",
    seen: /KILN_OPENAI_API_KEY/,
    remedy: /set KILN_OPENAI_API_KEY, or a file/,
    carryOut: [
      set({ KILN_OPENAI_API_KEY: "sk-another" }),
      async ({ installation, printed }) => {
        expect(printed).toContain("a file in KILN_OPENAI_API_KEY_FILE")
        const path = fileOf("openai")(installation)
        writeFileSync(path, "sk-another\n", { mode: 0o600 })
        return { KILN_OPENAI_API_KEY: undefined, KILN_OPENAI_API_KEY_FILE: path }
      },
    ],
  },
  {
    what: "a lease that is longer than a run",
    plant: (installation) => {
      const path = fileOf("kiln.config.mjs")(installation)
      writeFileSync(path, "export default { engine: { runLimitMs: 60000 } }")
      return { KILN_CONFIG: path, KILN_LEASE_SECONDS: "120" }
    },
    check: "settings",
    status: "problem",
    seen: /the lease is longer/,
    remedy: /lower KILN_LEASE_SECONDS/,
    carryOut: set({ KILN_LEASE_SECONDS: "30" }),
  },
]
