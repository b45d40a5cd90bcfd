import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { postgresServer } from "@kiln/postgres-lab"
import { differences, makeTemplate } from "./support/lostCommits.ts"
import { writingVerbs } from "./support/writingVerbs.ts"

let template: Awaited<ReturnType<typeof makeTemplate>>
beforeAll(async () => {
  template = await makeTemplate(await postgresServer())
})
afterAll(() => template[Symbol.asyncDispose]())

describe("the answer to a COMMIT is lost: the commit happened once, and the caller gets its result", () => {
  it.each(writingVerbs)("$name", async (verb) => {
    expect(await differences(template, verb, "answer lost")).toEqual([])
  })
})

describe("a COMMIT never reaches the server: the step is done again, once", () => {
  it.each(writingVerbs)("$name", async (verb) => {
    expect(await differences(template, verb, "cut before")).toEqual([])
  })
})
