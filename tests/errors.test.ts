import * as kiln from "@kiln/core"
import { errorCatalogue } from "@kiln/client/api"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"

const snakeCase = (name: string) => name.replace(/(?!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase()

/** What any of the constructors may read. */
const fields = {
  errors: [{ field: "input", reason: "required", message: "is required" }],
  missing: ["switch:ai"],
  uploads: 2,
  bytes: 0,
  uploadBytes: 4,
  resultBytes: 6,
  kind: "sumary",
  known: ["summary"],
  owner: "key",
  reason: "cap",
  currency: "usd",
  maximumCost: "0.5",
  period: "day",
  resetsAt: 0,
  afterMs: 5,
  expected: ["audio/mpeg"],
  maxBytes: 7,
  declared: "mp3",
  detected: "wav",
  operation: "createJobs",
  cause: new Error("the disk is full"),
  key: "jobs/1/1/audio",
}
const classes: Readonly<Record<string, unknown>> = kiln
const names = Object.keys(kiln.kilnErrors) as ReadonlyArray<kiln.KilnErrorName>
const errorOf = (name: kiln.KilnErrorName): kiln.KilnError =>
  new (classes[name] as new (given: typeof fields) => kiln.KilnError)(fields)

describe("errors of the engine", () => {
  const portErrors = {
    StoreUnavailable: "service_unavailable",
    BlobUnavailable: "service_unavailable",
    BlobCorrupt: "internal_error",
  }

  it("have one name everywhere: the code is the name in snake_case, except for port errors", () => {
    const codes = Object.fromEntries(names.map((name) => [name, kiln.kilnErrors[name].code]))
    expect(codes).toEqual({ ...Object.fromEntries(names.map((name) => [name, snakeCase(name)])), ...portErrors })
  })

  it("have the same code over HTTP, except those of operations that HTTP lacks", () => {
    const missing = names.filter((name) => !(kiln.kilnErrors[name].code in errorCatalogue))
    expect(missing).toEqual([
      "PrerequisiteNotFound",
      "JobNotWaiting",
      "JobNotDelivered",
      "JobNotRetryable",
      "RequestsHidden",
      "KindUnknown",
      "WaitTimeout",
    ])
  })

  it.each(names)("%s is identified by class, name, tag and code", async (name) => {
    const error = errorOf(name)
    expect(error).toBeInstanceOf(kiln.KilnError)
    expect(error).toMatchObject({ name, _tag: name, ...kiln.kilnErrors[name] })
    expect(error.message).toMatch(/\w{4}/)
    const failing: Effect.Effect<never, kiln.KilnError> = Effect.fail(error)
    await expect(Effect.runPromise(failing)).rejects.toBe(error)
    expect(await Effect.runPromise(Effect.catchTag(failing, name, () => Effect.succeed("caught")))).toBe("caught")
  })

  it.each([
    ["InvalidRequest", "input: is required"],
    ["SpendCapReached", "up to 0.5 USD, which passes the key's spend cap for this day"],
    ["UploadsFull", "(2 uploads)"],
    ["StorageFull", "bytes that it keeps (4 of uploads, 6 of results)"],
    ["KindUnknown", 'unknown job kind "sumary"; did you mean "summary"?'],
    ["StoreUnavailable", "the store is unavailable (createJobs): the disk is full"],
    ["AudioFormatMismatch", "the file was declared as mp3, but is wav"],
  ] as const)("%s says what is wrong", (name, message) => expect(errorOf(name).message).toContain(message))
})
