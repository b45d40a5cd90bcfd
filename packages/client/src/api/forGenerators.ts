/**
 * Adapts an OpenAPI document to client generators: they turn operation ids into function names, and a client with closed response
 * schemas would reject fields that are added later.
 */

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Applies `change` to every object inside a value, innermost first. */
const mapObjects = (value: unknown, change: (object: Json) => Json): unknown => {
  if (Array.isArray(value)) return value.map((item) => mapObjects(item, change))
  if (!isObject(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapObjects(inner, change)])))
}

const without = (object: Json, isUnwanted: (key: string, value: unknown) => boolean): Json =>
  Object.fromEntries(Object.entries(object).filter(([key, value]) => !isUnwanted(key, value)))

/** Stream framing is an implementation detail, and the range of safe integers is not a limit. */
const isNoise = (key: string, value: unknown): boolean =>
  key.startsWith("x-effect") ||
  (key === "minimum" && value === Number.MIN_SAFE_INTEGER) ||
  (key === "maximum" && value === Number.MAX_SAFE_INTEGER)

/** `audio.createSpeech` becomes `createSpeech`: names are unique without their group and make better function names. */
const operationName = (object: Json): Json =>
  typeof object["operationId"] === "string"
    ? { ...object, operationId: object["operationId"].slice(object["operationId"].lastIndexOf(".") + 1) }
    : object

/** Requests are closed: unknown fields are rejected. Responses are open, because fields may be added to them within `/v1`. */
const openResponses = (schemas: unknown): Json =>
  Object.fromEntries(
    Object.entries(isObject(schemas) ? schemas : {}).map(([name, schema]) => [
      name,
      name.startsWith("Create")
        ? schema
        : mapObjects(schema, (object) =>
            without(object, (key, value) => key === "additionalProperties" && value === false),
          ),
    ]),
  )

/** Merges separate conditions, such as an `enum`, into one schema if their keywords do not collide. */
const joined = (object: Json): Json => {
  const { allOf, ...rest } = object
  const [only, ...others] = Array.isArray(allOf) ? (allOf as ReadonlyArray<unknown>) : []
  if (!isObject(only) || others.length > 0 || "$ref" in only || "$ref" in rest) return object
  return Object.keys(only).some((key) => Object.hasOwn(rest, key)) ? object : { ...rest, ...only }
}

/** Returns the same document in a form that suits client generators. */
export const forGenerators = (generated: Json): Json => {
  const spec = mapObjects(generated, (object) => joined(operationName(without(object, isNoise)))) as Json
  const components = spec["components"] as Json
  return { ...spec, components: { ...components, schemas: openResponses(components["schemas"]) } }
}
