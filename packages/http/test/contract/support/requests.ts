import { expect } from "vitest"
import type { Answer } from "./Answer.ts"

/** A problem of a field, without its name and message: the reason, and the limit if there is one. */
export interface Problem {
  readonly reason: string
  readonly [bound: string]: unknown
}
export type FieldProblem = Problem & { readonly param: string }

export const unknownUpload = "upl_00000000000000000000000000"

/** A valid request for each endpoint and its response. The named files do not exist, which is checked after the fields. */
export const endpoints = {
  uploads: { path: "/v1/audio/uploads", valid: { format: "wav", declared_seconds: 1 }, accepted: "201" },
  transcriptions: {
    path: "/v1/audio/transcriptions",
    valid: { upload_id: unknownUpload },
    accepted: "upload_not_found",
  },
  speech: { path: "/v1/audio/speech", valid: { input: "Hello" }, accepted: "202" },
  turns: {
    path: "/v1/voice/turns",
    valid: { upload_id: unknownUpload, max_output_tokens: 5 },
    accepted: "upload_not_found",
  },
  images: { path: "/v1/images/generations", valid: { prompt: "Hello" }, accepted: "202" },
} as const
export type EndpointName = keyof typeof endpoints

export const expectAccepted = (answer: Answer, endpoint: EndpointName) =>
  expect(answer.code ?? String(answer.status), answer.text).toBe(endpoints[endpoint].accepted)

export const expectProblems = (answer: Answer, problems: ReadonlyArray<FieldProblem>) => {
  expect({ status: answer.status, code: answer.code }, answer.text).toEqual({ status: 400, code: "invalid_request" })
  const { details, param } = answer.error
  expect(param).toBe(problems[0]?.param)
  expect(Object.keys(details ?? {})).toEqual(["errors"])
  expect(details?.errors).toEqual(problems.map((problem) => ({ ...problem, message: expect.stringMatching(/\S/) })))
}
