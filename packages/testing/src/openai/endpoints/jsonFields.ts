import type { JsonFields } from "../Endpoint.ts"
import { missingParameter, refuse } from "../failures.ts"
import type { Incoming } from "./Service.ts"

/** Parses the JSON object in a body; throws `RequestRefused` if the body is not one. */
export const jsonFields = ({ body, headers }: Incoming): JsonFields => {
  if (!/^application\/json\s*(;|$)/i.test(headers["content-type"] ?? "")) {
    throw refuse(`Unsupported content type: '${headers["content-type"] ?? ""}'. This API method only accepts JSON.`, {
      status: 415,
      code: "unsupported_content_type",
    })
  }
  const parsed = parse(body)
  if (!isObject(parsed)) throw refuse("We expected a JSON object in the body of your request.")
  return parsed
}

const parse = (body: Buffer): unknown => {
  try {
    const parsed: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body))
    return parsed
  } catch {
    throw refuse("We could not parse the JSON body of your request.")
  }
}

export const isObject = (value: unknown): value is JsonFields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const requiredText = (fields: JsonFields, param: string): string => {
  const value = optionalText(fields, param)
  if (value === undefined) throw missingParameter(param)
  return value
}

export const optionalText = (fields: JsonFields, param: string): string | undefined => {
  const value = fields[param] ?? undefined
  if (value !== undefined && typeof value !== "string") throw invalidType(param, "a string")
  return value
}

export const optionalCount = (fields: JsonFields, param: string): number | undefined => {
  const value = fields[param] ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== "number" || !Number.isInteger(value)) throw invalidType(param, "an integer")
  return value
}

const invalidType = (param: string, expected: string) =>
  refuse(`Invalid type for '${param}': expected ${expected}.`, { param, code: "invalid_type" })

export const invalidValue = (param: string, value: string, allowed: ReadonlyArray<string>) =>
  refuse(`Invalid value: '${value}'. Supported values are: ${allowed.map((one) => `'${one}'`).join(", ")}.`, {
    param,
    code: "invalid_value",
  })

export const belowMinimum = (param: string, minimum: number, value: number) =>
  refuse(`Invalid '${param}': integer below minimum value. Expected a value >= ${minimum}, but got ${value} instead.`, {
    param,
    code: "integer_below_min_value",
  })
