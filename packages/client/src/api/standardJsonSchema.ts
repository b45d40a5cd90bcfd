export type JsonSchema = Readonly<Record<string, unknown>>

const asObject = (value: unknown): JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {}

type Convert = (options: { readonly target: string }) => unknown

/**
 * Returns the JSON Schema of a schema that implements Standard JSON Schema, with wire names; for other schemas, any object. Its
 * definitions become components of an OpenAPI document, and references lead there.
 */
export const standardJsonSchema = (
  schema: object | undefined,
  side: "input" | "output",
  toWire: (name: string) => string,
): { readonly schema: JsonSchema; readonly definitions: Readonly<Record<string, JsonSchema>> } => {
  const standard = asObject(
    schema === undefined ? undefined : (schema as { readonly "~standard"?: unknown })["~standard"],
  )
  const convert = asObject(standard["jsonSchema"])[side]
  const made =
    typeof convert === "function" ? asObject((convert as Convert)({ target: "draft-2020-12" })) : { type: "object" }
  const { $defs = {}, $schema: _, ...whole } = made as Record<string, unknown>
  const properties = Object.entries(asObject(whole["properties"])).map(
    ([name, value]) => [toWire(name), value] as const,
  )
  const required = Array.isArray(whole["required"]) ? whole["required"].map((name) => toWire(String(name))) : []
  const named = {
    ...whole,
    ...(properties.length > 0 && { properties: Object.fromEntries(properties), required }),
  }
  const moved = JSON.stringify({ schema: named, definitions: $defs }).replaceAll('"#/$defs/', '"#/components/schemas/')
  return JSON.parse(moved) as {
    readonly schema: JsonSchema
    readonly definitions: Readonly<Record<string, JsonSchema>>
  }
}
