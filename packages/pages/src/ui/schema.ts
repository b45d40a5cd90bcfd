export type Json = Readonly<Record<string, unknown>>

export const asObject = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {}

const asArray = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const asNumber = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

/** Resolves a reference into the components of an OpenAPI document, and keeps the keywords beside it. */
export const resolveSchema = (schema: unknown, schemas: Json): Json => {
  const { $ref: reference, ...beside } = asObject(schema)
  if (typeof reference !== "string") return asObject(schema)
  return { ...resolveSchema(schemas[reference.slice(reference.lastIndexOf("/") + 1)], schemas), ...beside }
}

/** `max_output_tokens` → `Max output tokens`. */
export const humanName = (name: string): string => {
  const words = name.replaceAll("_", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** A field of an object, as forms and tables show it. */
export interface SchemaField {
  readonly name: string
  readonly isRequired: boolean
  readonly type: "string" | "number" | "integer" | "boolean" | "choice" | "json"
  readonly choices: ReadonlyArray<string | number>
  readonly description: string
  readonly minimum: number | undefined
  readonly maximum: number | undefined
  readonly maxLength: number | undefined
  readonly example: unknown
  readonly schema: Json
}

const typeOf = ({ enum: choices, type }: Json): SchemaField["type"] => {
  if (Array.isArray(choices)) return "choice"
  return type === "string" || type === "number" || type === "integer" || type === "boolean" ? type : "json"
}

/** The fields of an object's schema, in their order. */
export const fieldsOf = (given: unknown, schemas: Json): ReadonlyArray<SchemaField> => {
  const schema = resolveSchema(given, schemas)
  const required = asArray(schema["required"])
  const example = asObject(asArray(schema["examples"])[0])
  return Object.entries(asObject(schema["properties"])).map(([name, property]) => {
    const field = resolveSchema(property, schemas)
    return {
      name,
      isRequired: required.includes(name),
      type: typeOf(field),
      choices: asArray(field["enum"]) as ReadonlyArray<string | number>,
      description: typeof field["description"] === "string" ? field["description"] : "",
      minimum: asNumber(field["minimum"]),
      maximum: asNumber(field["maximum"]),
      maxLength: asNumber(field["maxLength"]),
      example: example[name] ?? asArray(field["examples"])[0],
      schema: field,
    }
  })
}

/** `string, 1 to 4,096 characters`, `one of alloy, echo`, `object or null`. */
export const summaryOf = (given: unknown, schemas: Json): string => {
  const schema = resolveSchema(given, schemas)
  const some = asArray(schema["anyOf"] ?? schema["oneOf"])
  if (some.length > 0) return [...new Set(some.map((one) => summaryOf(one, schemas)))].join(" or ")
  const choices = asArray(schema["enum"])
  if (choices.length > 0) return choices.map((choice) => JSON.stringify(choice)).join(", ")
  const { const: constant, maximum, maxLength, minimum, type } = schema
  if (constant !== undefined) return JSON.stringify(constant)
  if (type === "array") return `array of ${summaryOf(schema["items"], schemas)}`
  const bounds =
    typeof maxLength === "number"
      ? `, at most ${maxLength.toLocaleString("en-US")} characters`
      : typeof maximum === "number" && maximum < 1e9
        ? `, ${typeof minimum === "number" ? `${minimum} to` : "at most"} ${maximum.toLocaleString("en-US")}`
        : ""
  return `${typeof type === "string" ? type : "any"}${bounds}`
}
