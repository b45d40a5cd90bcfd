import { ApiError, ConnectionLost, type JobErrorCode } from "@kiln/client"
import { causeMessage, CommandFailed, failed } from "../CommandFailed.ts"
import { priceCommand } from "../commands/meterFlags.ts"
import { keyCommand } from "../serve/firstKey.ts"

/** The command that supplies a prerequisite of live jobs, such as `switch:ai` or `price:svc-audio`. */
const supply = (missing: string): string => {
  const [what, name = ""] = missing.split(":")
  if (what === "switch") return `kiln switch on ${name}`
  if (what === "price") return `${priceCommand(name)}, then kiln price activate ${name}`
  return `configure a provider for ${name} and start a worker (docs/guides/providers.md)`
}

const texts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((each) => typeof each === "string") : []

const remedyOf = ({ code, details, retryAfterMs }: ApiError): string | undefined => {
  switch (code) {
    case "invalid_api_key":
    case "missing_api_key":
      return `pass a key of this service with --key or KILN_API_KEY; ${keyCommand()} creates one where the service runs`
    case "insufficient_scope":
      return `create a key with --scope ${texts([details?.["required_scope"]]).join("") || "SCOPE"}: kiln key create --help`
    case "live_not_active":
      return texts(details?.["missing"]).map(supply).join("; ")
    case "spend_cap_reached":
      return "kiln project cap and kiln key cap show the caps and raise them"
    case "job_not_found":
      return "check the id, and that the key is the one that created the job"
    case "rate_limited":
    case "queue_full":
    case "uploads_full":
      return retryAfterMs === null ? undefined : `try again in ${Math.ceil(retryAfterMs / 1_000)} s`
    case "unexpected_response":
      return "check --url: the response is not one of kiln's"
    default:
      return undefined
  }
}

/** The fields of the API as this command's flags. */
const flagOf: Readonly<Record<string, string>> = {
  input: "TEXT",
  prompt: "PROMPT",
  voice: "--voice",
  instructions: "--instructions",
  max_output_tokens: "--max-output-tokens",
  declared_seconds: "--seconds",
}

const problemsOf = (error: ApiError): string =>
  error.fieldProblems
    .map(
      ({ allowed, message, param }) =>
        `${flagOf[param] ?? param}: ${message}${allowed === undefined ? "" : ` (${allowed.join(", ")})`}`,
    )
    .join("; ")

const withoutDot = (text: string): string => text.replace(/\.$/, "")

/** Explains why a request failed, and what to do. An invalid argument is incorrect use. */
export const explain = (error: unknown, url: string): CommandFailed => {
  if (error instanceof CommandFailed) return error
  if (error instanceof ConnectionLost)
    return failed(
      `${url} does not respond (${causeMessage(error.cause instanceof Error ? (error.cause.cause ?? error.cause) : error.cause)}): check --url, and that the service is running (kiln serve)`,
    )
  if (!(error instanceof ApiError)) return failed(causeMessage(error))
  const fields = problemsOf(error)
  if (fields !== "") return new CommandFailed({ message: withoutDot(fields), exitCode: 2 })
  const remedy = remedyOf(error)
  const request = error.requestId === null ? "" : ` (request ${error.requestId})`
  return failed(`${withoutDot(error.message)}${remedy === undefined ? "" : `: ${remedy}`}${request}`)
}

const byFile = "try another recording, or convert it to MP3"
const inLog = "the service's log and kiln job attempts JOB_ID say more"

const failures: Readonly<Record<JobErrorCode, string>> = {
  audio_unreadable: `the recording cannot be decoded; ${byFile}`,
  audio_too_long: "the recording is longer than the service accepts; split it",
  audio_too_short: "the recording is shorter than 0.1 s",
  content_rejected: "the provider rejected the content; change it",
  provider_rejected: `the provider rejected the request; ${inLog}`,
  provider_unavailable:
    "the provider failed on every attempt; kiln doctor says more, kiln job retry JOB_ID repeats the job",
  result_invalid: `the provider's result was invalid; ${inLog}`,
  job_timeout: "the job ran for too long",
  queue_timeout: "the job waited for too long; kiln doctor says for what",
  attempts_exhausted: `the job lost its worker each time; ${inLog}`,
  prerequisite_failed: "a job that it was to start after failed; retry that one, then this one: kiln job retry JOB_ID",
  not_accepted:
    "a job submitted it with its result, and its price was missing or a spend cap reached; repeat it: kiln job retry JOB_ID",
  canceled_by_operator: "an operator canceled the job",
  internal_error: `a bug in kiln or in the code of the job's kind; ${inLog}`,
}

/** Explains why a job failed. */
export const explainFailure = (jobId: string, code: string | null): string => {
  const known = code !== null && Object.hasOwn(failures, code) ? failures[code as JobErrorCode] : undefined
  return `${jobId} failed: ${code ?? "for an unknown reason"}${known === undefined ? "" : `: ${known.replaceAll("JOB_ID", jobId)}`}`
}
