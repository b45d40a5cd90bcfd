import * as Effect from "effect/Effect"
import { engineSettings } from "../KilnConfig.ts"
import { loadConfig } from "../loadModule.ts"
import { type Environment, readSettings, type ReadSettings } from "../Settings.ts"
import { openAiProblem } from "../settings/openAi.ts"
import { type Check, ok, problem, warning } from "./Check.ts"

const name = "settings"

/** The settings, unless they are invalid, and the result of their check. */
export interface CheckedSettings {
  readonly check: Check
  readonly valid?: Extract<ReadSettings, { readonly ok: true }>
}

/** Checks the environment and the config file. Without valid `settings`, nothing else can be checked. */
export const checkSettings = (environment: Environment): Effect.Effect<CheckedSettings> =>
  Effect.gen(function* () {
    const read = readSettings(environment)
    if (!read.ok) {
      const findings = read.problems.map(({ rule, setting }) => ({
        message: `${setting} ${rule}`,
        details: { setting },
      }))
      return {
        check: problem(name, {
          summary: "some settings are invalid",
          remedy: "correct them where kiln is started; docs/configuration.md lists all",
          findings,
        }),
      }
    }
    const { settings, warnings } = read
    const wrong = (summary: string, remedy: string): CheckedSettings => ({
      valid: read,
      check: problem(name, { summary, remedy }),
    })
    const config = yield* Effect.result(loadConfig(settings.configPath))
    if (config._tag === "Failure") return wrong(config.failure.message, "correct the file, or unset KILN_CONFIG")
    if (settings.provider !== undefined && config.success.providers !== undefined)
      return wrong("KILN_PROVIDER and the providers in KILN_CONFIG both configure live jobs", "unset one of them")
    const keyless = settings.provider?._tag === "OpenAi" ? openAiProblem(settings.provider) : undefined
    if (keyless !== undefined) return wrong(keyless, "set KILN_OPENAI_API_KEY, or a file in KILN_OPENAI_API_KEY_FILE")
    const { leaseDurationMs, runLimitMs } = engineSettings(config.success, settings.engine)
    if (leaseDurationMs > runLimitMs)
      return wrong("the lease is longer than the maximum run time of a job", "lower KILN_LEASE_SECONDS")
    const findings = warnings.map((message) => ({ message }))
    return {
      valid: read,
      check:
        findings.length === 0
          ? ok(name, "all settings are valid")
          : warning(name, {
              summary: "some settings have no effect",
              remedy: "correct or remove them where kiln is started",
              findings,
            }),
    }
  })
