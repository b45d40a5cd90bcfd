import type { ModelNames } from "./models.ts"
import type { HandlerContext } from "../handlers/HandlerContext.ts"

/** Settings of the endpoints under `/openai/v1`. */
export interface OpenAiSettings {
  /** Milliseconds that a request waits for its job. */
  readonly waitMs: number
  /** Names of the provider's models, which requests may use besides the aliases. */
  readonly models?: ModelNames
}

export const defaultOpenAiSettings: OpenAiSettings = { waitMs: 120_000 }

export interface OpenAiContext extends HandlerContext {
  readonly openAi: OpenAiSettings
}
