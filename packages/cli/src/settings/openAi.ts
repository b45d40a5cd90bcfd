import { Redacted } from "effect"
import { broken, parsed, type SettingType } from "./SettingType.ts"

/** OpenAI, or a server that speaks its language. */
export interface OpenAiPlace {
  readonly _tag: "OpenAi"
  /** `undefined` for servers that ask for none. */
  readonly apiKey: Redacted.Redacted | undefined
  /** What endpoints are appended to, without a slash at the end; `undefined` for OpenAI itself. */
  readonly baseUrl: string | undefined
  /** Model names that were set; `null` for a port that this server shall not serve. */
  readonly models: {
    readonly transcription: string | null | undefined
    readonly speech: string | null | undefined
    readonly reply: string | null | undefined
    readonly image: string | null | undefined
  }
}

/**
 * Why these places serve nobody. Only who runs jobs has to mind: a command that throws a switch must not fail for it.
 */
export const openAiProblem = ({ apiKey: key, baseUrl }: OpenAiPlace): string | undefined =>
  key === undefined && baseUrl === undefined
    ? "KILN_OPENAI_API_KEY must be set where KILN_PROVIDER=openai names no KILN_OPENAI_BASE_URL"
    : undefined

/** A key that fits into a header. A broken rule says nothing of the key itself. */
export const apiKey: SettingType<Redacted.Redacted> = (text) =>
  /^[\x21-\x7e]{1,512}$/.test(text)
    ? parsed(Redacted.make(text, { label: "API key" }))
    : broken("must be 1 to 512 visible ASCII characters")

/** The name of a model, or `off`. */
export const modelName: SettingType<string | null> = (text) => {
  if (text === "off") return parsed(null)
  return /^[\x21-\x7e]{1,200}$/.test(text)
    ? parsed(text)
    : broken("must be the name of a model, 1 to 200 visible ASCII characters, or off")
}
