import { asObject, type Json, readConfig, resolveSchema } from "@kiln/pages/ui"

export const config = readConfig()

/** An endpoint of the OpenAPI document. */
export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  readonly needsKey: boolean
  readonly parameters: ReadonlyArray<Json>
  /** Schema of the JSON body. */
  readonly body: Json | undefined
  readonly responses: ReadonlyArray<{
    readonly status: string
    readonly description: string
    readonly schema: Json | undefined
  }>
}

const methods = ["get", "head", "post", "put", "patch", "delete"]

/** A text, or nothing. */
export const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

const jsonSchemaOf = (holder: unknown): Json | undefined => {
  const content = asObject(asObject(holder)["content"])
  const json = content["application/json"]
  return json === undefined ? undefined : asObject(asObject(json)["schema"])
}

const operationOf = (method: string, path: string, given: Json): Operation => ({
  id: textOf(given["operationId"]),
  method: method.toUpperCase(),
  path,
  tag: textOf((given["tags"] as ReadonlyArray<unknown> | undefined)?.[0]),
  summary: textOf(given["summary"]).replace(/\.$/, "") || textOf(given["operationId"]),
  description: textOf(given["description"]),
  needsKey: Array.isArray(given["security"]) && given["security"].length > 0,
  parameters: Array.isArray(given["parameters"]) ? given["parameters"].map(asObject) : [],
  body: jsonSchemaOf(given["requestBody"]),
  responses: Object.entries(asObject(given["responses"])).map(([status, response]) => ({
    status,
    description: textOf(asObject(response)["description"]),
    schema: jsonSchemaOf(response),
  })),
})

/** The endpoints of a document, in its order. */
export const operationsOf = (document: Json): ReadonlyArray<Operation> =>
  Object.entries(asObject(document["paths"])).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const given = asObject(item)[method]
      return given === undefined ? [] : [operationOf(method, path, asObject(given))]
    }),
  )

const depthLimit = 6

/** A value that a schema allows: its example, or one made up from its parts. */
export const exampleOf = (given: unknown, schemas: Json, depth = 0): unknown => {
  const schema = resolveSchema(given, schemas)
  const { const: constant, enum: choices, examples, type } = schema
  if (Array.isArray(examples) && examples.length > 0) return examples[0]
  if (constant !== undefined) return constant
  if (Array.isArray(choices)) return choices[0]
  const some = schema["anyOf"] ?? schema["oneOf"]
  if (Array.isArray(some))
    return exampleOf(some.find((one) => asObject(one)["type"] !== "null") ?? some[0], schemas, depth)
  if (depth > depthLimit) return null
  if (type === "object")
    return Object.fromEntries(
      Object.entries(asObject(schema["properties"])).map(([name, field]) => [
        name,
        exampleOf(field, schemas, depth + 1),
      ]),
    )
  if (type === "array") return [exampleOf(schema["items"], schemas, depth + 1)]
  if (type === "string") return "…"
  if (type === "boolean") return false
  return type === "null" ? null : type === "number" || type === "integer" ? 1 : null
}
