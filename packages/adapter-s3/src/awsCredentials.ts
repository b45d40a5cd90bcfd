import { readFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import type { S3Credentials } from "./S3BlobOptions.ts"

type Environment = Readonly<Record<string, string | undefined>>
type Profile = Readonly<Record<string, string>>

/**
 * Returns a function that finds an access key where AWS tools keep it: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
 * `AWS_SESSION_TOKEN`; otherwise the profile `AWS_PROFILE` (`default`) in `AWS_SHARED_CREDENTIALS_FILE`
 * (`~/.aws/credentials`) or `AWS_CONFIG_FILE` (`~/.aws/config`). Fails, and says what to set, if it finds no key.
 *
 * Supports keys and session tokens only. Roles of machines, containers and web identities, `credential_process`, SSO and
 * `role_arn` need the AWS SDK: pass its `fromNodeProviderChain()` as `credentials`.
 */
export const awsCredentials = (environment: Environment) => async (): Promise<S3Credentials> => {
  const { AWS_ACCESS_KEY_ID: id, AWS_PROFILE: profile, AWS_SECRET_ACCESS_KEY: secret } = environment
  if (isSet(id) && isSet(secret))
    return { accessKeyId: id, secretAccessKey: secret, sessionToken: emptyAsUnset(environment["AWS_SESSION_TOKEN"]) }
  if (isSet(id) || isSet(secret)) throw new Error("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither")
  const name = emptyAsUnset(profile) ?? "default"
  const found = await readProfile(environment, name)
  const { aws_access_key_id, aws_secret_access_key, aws_session_token } = found
  if (isSet(aws_access_key_id) && isSet(aws_secret_access_key))
    return {
      accessKeyId: aws_access_key_id,
      secretAccessKey: aws_secret_access_key,
      sessionToken: emptyAsUnset(aws_session_token),
    }
  throw new Error(missing(environment, name, found))
}

/** Returns the region of the environment: `AWS_REGION`, `AWS_DEFAULT_REGION`, or that of the profile. */
export const awsRegion = async (environment: Environment): Promise<string | undefined> =>
  emptyAsUnset(environment["AWS_REGION"]) ??
  emptyAsUnset(environment["AWS_DEFAULT_REGION"]) ??
  emptyAsUnset((await readProfile(environment, emptyAsUnset(environment["AWS_PROFILE"]) ?? "default"))["region"])

const isSet = (text: string | undefined): text is string => text !== undefined && text !== ""
const emptyAsUnset = (text: string | undefined): string | undefined => (text === "" ? undefined : text)

/** Sources of credentials that exist here, but need the AWS SDK. */
const unsupported = [
  "AWS_WEB_IDENTITY_TOKEN_FILE",
  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
  "AWS_CONTAINER_CREDENTIALS_FULL_URI",
]
const unsupportedFields = ["role_arn", "credential_process", "sso_session", "sso_start_url"]

const missing = (environment: Environment, name: string, profile: Profile): string => {
  const field = unsupportedFields.find((known) => known in profile)
  if (field !== undefined) return `the profile ${name} uses ${field}, which is not supported: ${remedy}`
  const variable = unsupported.find((known) => isSet(environment[known]))
  if (variable !== undefined) return `${variable} is not supported: ${remedy}`
  return `there is no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add the profile ${name} to ~/.aws/credentials`
}
const remedy =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass fromNodeProviderChain() of @aws-sdk/credential-providers to s3Blobs()"

/** Reads a profile. The credentials file wins over the config file. */
const readProfile = async (environment: Environment, name: string): Promise<Profile> => {
  const directory = join(emptyAsUnset(environment["HOME"]) ?? homedir(), ".aws")
  const config = emptyAsUnset(environment["AWS_CONFIG_FILE"]) ?? join(directory, "config")
  const credentials = emptyAsUnset(environment["AWS_SHARED_CREDENTIALS_FILE"]) ?? join(directory, "credentials")
  return {
    ...sectionOf(
      await readIfPresent(config),
      name === "default" ? ["default", "profile default"] : [`profile ${name}`],
    ),
    ...sectionOf(await readIfPresent(credentials), [name]),
  }
}

const readIfPresent = async (path: string): Promise<string> => {
  try {
    return await readFile(path, "utf8")
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) return ""
    throw error
  }
}

/** Reads the settings of the sections with these names. Nested settings, which are indented, are skipped. */
const sectionOf = (text: string, names: ReadonlyArray<string>): Profile => {
  const settings: Record<string, string> = {}
  let isWanted = false
  for (const line of text.split(/\r?\n/)) {
    const [, title] = /^\s*\[\s*([^\]]*?)\s*\]/.exec(line) ?? []
    if (title !== undefined) isWanted = names.includes(title.replaceAll(/\s+/g, " "))
    const [, name, value] = /^([a-z0-9_]+)\s*=\s*(.*?)\s*$/i.exec(line) ?? []
    if (isWanted && name !== undefined && value !== undefined) settings[name.toLowerCase()] = value
  }
  return settings
}
