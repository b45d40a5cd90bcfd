import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { JobKind } from "@kiln/core/kinds"
import { wireName } from "../routes/fieldNames.ts"
import type { JobRoute } from "../routes/jobRoute.ts"
import type { WireOutput, WireRequest } from "../routes/wireTypes.ts"
import { type JsonSchema, standardJsonSchema } from "./standardJsonSchema.ts"
import { FileUrl } from "./JobBodies.ts"

/** The wire schemas of a kind's requests and outputs, derived from the schemas that the kind declares. */

/** A schema, and the definition that replaces it in an OpenAPI document if the schema cannot describe itself. */
export interface Described<T> {
  readonly schema: Schema.Codec<T>
  readonly components: Readonly<Record<string, JsonSchema>>
}

/** A kind that is only named, by `remoteKind`, has no schemas. */
const kindOf = ({ kind }: JobRoute): Partial<JobKind> => kind as Partial<JobKind>

type Fields = Readonly<Record<string, Schema.Top>>
const fieldsOf = (schema: object | undefined): Fields | undefined =>
  schema !== undefined && "fields" in schema ? (schema.fields as Fields) : undefined

/** Any JSON object, as far as the client checks it. */
const anyObject = Schema.Record(Schema.String, Schema.Json)

/** The body that creates a job. */
export const requestOf = <R extends JobRoute>(route: R): Described<WireRequest<R>> => {
  const { example, request } = kindOf(route)
  const toWire = (name: string) => wireName(name, route.names)
  const identifier = `Create${route.noun}`
  const fields = fieldsOf(request)
  const wireExample =
    example && Object.fromEntries(Object.entries(example).map(([name, value]) => [toWire(name), value]))
  if (fields !== undefined) {
    const wire = Object.fromEntries(
      Object.entries(fields).map(([name, field]) => [toWire(name), Schema.toEncoded(field)]),
    )
    const about = { identifier, ...(wireExample && { examples: [wireExample] }) }
    return { schema: Schema.Struct(wire).annotate(about) as never, components: {} }
  }
  const { definitions, schema } = standardJsonSchema(request, "input", toWire)
  return {
    schema: anyObject.annotate({ identifier }) as never,
    components: { ...definitions, [identifier]: { ...schema, ...(wireExample && { examples: [wireExample] }) } },
  }
}

/** The output of a family's jobs. With several kinds, each field states which kinds have it, and all fields are optional. */
export const outputOf = <R extends JobRoute>(
  noun: string,
  routes: ReadonlyArray<R>,
): Described<unknown> & { readonly example: Readonly<Record<string, unknown>> } => {
  const identifier = `${noun}Output`
  const outputs = routes.map((route) => ({ route, ...outputFields(route) }))
  const names = [...new Set(outputs.flatMap(({ fields }) => Object.keys(fields)))]
  const fields = names.map((name) => {
    const having = outputs.filter((output) => Object.hasOwn(output.fields, name))
    const field = having[0]?.fields[name] ?? Schema.Json
    if (routes.length === 1) return [name, field] as const
    const kinds = having.map(({ route }) => route.kind.name.replaceAll("_", " ")).join(" and ")
    const about = descriptionOf(field)
    const described = field.annotate({
      description: `${capitalized(kinds)} jobs${about === "" ? "." : `: ${lowered(about)}`}`,
    })
    return [name, SchemaAST.isOptional(field.ast) ? described : Schema.optionalKey(described)] as const
  })
  const struct = Schema.Struct(Object.fromEntries(fields))
  const isOpen = outputs.some(({ isComplete }) => !isComplete)
  const schema = isOpen ? Schema.StructWithRest(struct, [Schema.Record(Schema.String, Schema.Json)]) : struct
  const components = Object.fromEntries(outputs.flatMap((output) => Object.entries(output.components)))
  return { schema: schema.annotate({ identifier }) as never, components, example: exampleOf(outputs[0]?.route) }
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
const lowered = (text: string) => text.charAt(0).toLowerCase() + text.slice(1)
const descriptionOf = ({ ast }: Schema.Top): string => {
  const { description } = (SchemaAST.resolve(ast) ?? {}) as { readonly description?: unknown }
  return typeof description === "string" ? description : ""
}

/** Returns an example output without URLs, which would not work. */
const exampleOf = (route: JobRoute | undefined): Readonly<Record<string, unknown>> => {
  const fields = route === undefined ? {} : outputFields(route).fields
  const texts = Object.entries(fields).filter(([name, { ast }]) => ast._tag === "String" && !name.endsWith("_url"))
  return Object.fromEntries(texts.map(([name]) => [name, "Hello there."]))
}

/** Names of the fields of a finished job's output, on the wire. */
export const outputNames = (route: JobRoute): ReadonlyArray<string> => Object.keys(outputFields(route).fields)

/** Returns the fields of one kind's output, with its files. Incomplete if the kind does not declare its fields. */
const outputFields = (
  route: JobRoute,
): {
  readonly fields: Fields
  readonly components: Readonly<Record<string, JsonSchema>>
  readonly isComplete: boolean
} => {
  const { fileDescriptions, files = [], output } = kindOf(route)
  const toWire = (name: string) => wireName(name, route.names)
  const urls = files.map((name) => [`${toWire(name)}_url`, FileUrl(fileDescriptions?.[name] ?? "")] as const)
  const declared = fieldsOf(output)
  const own = Object.entries(declared ?? {}).map(([name, field]) => [toWire(name), Schema.toEncoded(field)] as const)
  if (declared !== undefined)
    return { fields: Object.fromEntries<Schema.Top>([...own, ...urls]), components: {}, isComplete: true }
  const { definitions, schema } = standardJsonSchema(output, "output", toWire)
  const properties = Object.entries((schema["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>)
  const required = (schema["required"] ?? []) as ReadonlyArray<string>
  // Each field is a separate component, which the document describes with the kind's schema.
  const named = properties.map(([name, property]) => {
    const identifier = `${route.noun}Output_${name}`
    const field = Schema.Json.annotate({ identifier })
    return { name, identifier, property, field: required.includes(name) ? field : Schema.optionalKey(field) }
  })
  return {
    fields: Object.fromEntries([...named.map(({ field, name }) => [name, field] as const), ...urls]),
    components: {
      ...definitions,
      ...Object.fromEntries(named.map(({ identifier, property }) => [identifier, property])),
    },
    isComplete: properties.length > 0 && schema["additionalProperties"] === false,
  }
}

/** The output of a family's finished jobs: all fields of its only kind, or any fields of several kinds. */
export type OutputOf<R extends JobRoute> = IsUnion<R> extends true ? Partial<Merged<WireOutput<R>>> : WireOutput<R>
type IsUnion<T, All = T> = T extends unknown ? ([All] extends [T] ? false : true) : never
type Merged<T> = {
  readonly [Field in T extends unknown ? keyof T : never]: T extends unknown
    ? Field extends keyof T
      ? T[Field]
      : never
    : never
}
