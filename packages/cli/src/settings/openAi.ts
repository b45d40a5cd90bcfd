import * as Redacted from "effect/Redacted"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** OpenAI or a compatible server. */
export interface OpenAiPlace {
  readonly _tag: "OpenAi"
  /** `undefined` for servers without keys. */
  readonly apiKey: Redacted.Redacted | undefined
  /** Base of endpoint URLs, without a trailing slash; `undefined` for OpenAI itself. */
  readonly baseUrl: string | undefined
  /** Configured model names; `null` for a port that this server must not serve. */
  readonly models: {
    readonly transcription: string | null | undefined
    readonly speech: string | null | undefined
    readonly reply: string | null | undefined
    readonly image: string | null | undefined
  }
}

/**
 * Returns why this configuration cannot serve jobs. Only checked by processes that run jobs: a command that sets a switch
 * must not fail because of it.
 */
export const openAiProblem = ({ apiKey: key, baseUrl }: OpenAiPlace): string | undefined =>
  key === undefined && baseUrl === undefined
    ? "KILN_OPENAI_API_KEY must be set if KILN_PROVIDER=openai has no KILN_OPENAI_BASE_URL"
    : undefined

/** Parses a key that is valid in a header. Error messages never contain the key. */
export const apiKey: SettingType<Redacted.Redacted> = (text) =>
  /^[\x21-\x7e]{1,512}$/.test(text)
    ? parsed(Redacted.make(text, { label: "API key" }))
    : broken("must be 1 to 512 visible ASCII characters")

/** Parses the name of a model, or `off`. */
export const modelName: SettingType<string | null> = (text) => {
  if (text === "off") return parsed(null)
  return /^[\x21-\x7e]{1,200}$/.test(text)
    ? parsed(text)
    : broken("must be the name of a model, 1 to 200 visible ASCII characters, or off")
}
