import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { awsCredentials, awsRegion } from "@kiln/adapter-s3"
import { afterAll, beforeAll, expect, it } from "vitest"

let home = ""
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "kiln-aws-"))
})
afterAll(() => rm(home, { recursive: true }))

const withFiles = async (credentials: string, config = "") => {
  const files = { AWS_SHARED_CREDENTIALS_FILE: join(home, "credentials"), AWS_CONFIG_FILE: join(home, "config") }
  await writeFile(files.AWS_SHARED_CREDENTIALS_FILE, credentials)
  await writeFile(files.AWS_CONFIG_FILE, config)
  return { HOME: home, ...files }
}

const section = (name: string, id: string) => `[${name}]\naws_access_key_id = ${id}\naws_secret_access_key=s=${id}\n`

it("variables win over files", async () => {
  const files = await withFiles(section("default", "file"))
  const variables = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret", AWS_SESSION_TOKEN: "token" }
  expect(await awsCredentials({ ...files, ...variables })()).toEqual({
    accessKeyId: "id",
    secretAccessKey: "secret",
    sessionToken: "token",
  })
})

it("reads the profile from the credentials file, otherwise from the config file", async () => {
  const files = await withFiles(
    `# comment\n${section("default", "one")}\n${section("work", "two")}aws_session_token = tok\n`,
    `${section("profile play", "three")}region = eu-west-1\ns3 =\n  region = nested\n[default]\nregion=us-west-2\n`,
  )
  expect(await awsCredentials(files)()).toMatchObject({ accessKeyId: "one", secretAccessKey: "s=one" })
  expect(await awsCredentials({ ...files, AWS_PROFILE: "work" })()).toMatchObject({
    accessKeyId: "two",
    sessionToken: "tok",
  })
  expect(await awsCredentials({ ...files, AWS_PROFILE: "play" })()).toMatchObject({ accessKeyId: "three" })
  expect(await awsRegion(files)).toBe("us-west-2")
  expect(await awsRegion({ ...files, AWS_PROFILE: "play" })).toBe("eu-west-1")
  expect(await awsRegion({ ...files, AWS_DEFAULT_REGION: "a", AWS_REGION: "b" })).toBe("b")
})

it("reads files again at each call", async () => {
  const find = awsCredentials(await withFiles(section("default", "one")))
  expect((await find()).accessKeyId).toBe("one")
  await withFiles(section("default", "two"))
  expect((await find()).accessKeyId).toBe("two")
})

it.each([
  [{}, "", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add the profile default to ~/.aws/credentials"],
  [{ AWS_PROFILE: "x" }, section("default", "one"), "add the profile x"],
  [{ AWS_ACCESS_KEY_ID: "id" }, "", "set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"],
  [{ AWS_WEB_IDENTITY_TOKEN_FILE: "/x" }, "", "AWS_WEB_IDENTITY_TOKEN_FILE is not supported"],
  [{}, "[default]\nrole_arn = arn:x\n", "the profile default uses role_arn, which is not supported"],
])("says what to set: %#", async (variables, credentials, message) => {
  const files = await withFiles(credentials)
  await expect(awsCredentials({ ...files, ...variables })()).rejects.toThrow(message)
})
