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
    const wrong = (advice: { readonly summary: string; readonly remedy: string }): CheckedSettings => ({
      valid: read,
      check: problem(name, advice),
    })
    const config = yield* Effect.result(loadConfig(settings.configPath))
    if (config._tag === "Failure")
      return wrong({ summary: config.failure.message, remedy: "correct the file, or unset KILN_CONFIG" })
    if (settings.provider !== undefined && config.success.providers !== undefined)
      return wrong({
        summary: "KILN_PROVIDER and the providers in KILN_CONFIG both configure live jobs",
        remedy: "unset one of them",
      })
    const keyless = settings.provider?._tag === "OpenAi" ? openAiProblem(settings.provider) : undefined
    if (keyless !== undefined)
      return wrong({ summary: keyless, remedy: "set KILN_OPENAI_API_KEY, or a file in KILN_OPENAI_API_KEY_FILE" })
    const { leaseDurationMs, runLimitMs } = engineSettings(config.success, settings.engine)
    if (leaseDurationMs > runLimitMs)
      return wrong({
        summary: "the lease is longer than the maximum run time of a job",
        remedy: "lower KILN_LEASE_SECONDS",
      })
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
